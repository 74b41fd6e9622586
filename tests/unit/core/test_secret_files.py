"""The shared secret's file is refused if every user of the machine can read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.secret_files import read_secret


@pytest.mark.fault("T9")
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o666])
def test_a_secret_that_every_user_can_read_or_change_is_refused_with_the_remedy(
    tmp_path: Path, mode: int
) -> None:
    file = tmp_path / "secret"
    file.write_text("a-secret-of-some-length\n", encoding="utf-8")
    file.chmod(mode)
    with pytest.raises(ValueError, match="run chmod 600"):
        read_secret(file)
    file.chmod(0o600)
    assert read_secret(file) == "a-secret-of-some-length"


def test_a_secret_may_be_mounted_for_a_group(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("a-secret-of-some-length", encoding="utf-8")
    file.chmod(0o440)
    assert read_secret(file) == "a-secret-of-some-length"
