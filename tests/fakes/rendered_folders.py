"""The scenes of a folder of rendered images, as its metadata has them."""

from __future__ import annotations

import json
from pathlib import Path

from counterpose_miniature.world.dataset import METADATA
from counterpose_miniature.world.scene import Scene


def read_metadata(root: Path) -> dict[str, Scene]:
    """Return the scene of every image of a written folder, by its path relative to the root."""
    scenes: dict[str, Scene] = {}
    for line in (root / METADATA).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        name = row.pop("file_name")
        row.pop("caption")
        scenes[name] = Scene(**row)
    return scenes
