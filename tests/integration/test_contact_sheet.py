"""The complete contact sheet, drawn by its command."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from counterpose_miniature.world import contact_sheet


def test_the_command_draws_eight_images_per_row(tmp_path: Path) -> None:
    contact_sheet.main([str(tmp_path / "sheet.png"), "--blurred-to", "24"])
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width == 8 * 128
