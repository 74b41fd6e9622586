"""Many images: ImageFolder trees for users' datasets."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from counterpose_miniature.world.grammar import caption
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import Scene

METADATA = "metadata.jsonl"


def encode_png(image: np.ndarray) -> bytes:
    """Encode an image, uint8 [height, width, 3]."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="PNG")
    return buffer.getvalue()


def _by_object(scene: Scene) -> str:
    return scene.object_class


def write_image_folder(
    root: Path, scenes: Iterable[Scene], label: Callable[[Scene], str] = _by_object
) -> list[Path]:
    """Write class/<digest>.png and metadata.jsonl (one line per image, in order); return the paths."""
    root.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    with (root / METADATA).open("w", encoding="utf-8") as metadata:
        for scene in scenes:
            data = encode_png(render(scene))
            # Named by content, so that writing a folder twice changes nothing.
            path = root / label(scene) / f"{hashlib.sha256(data).hexdigest()[:16]}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            row = {"file_name": path.relative_to(root).as_posix(), "caption": caption(scene)}
            metadata.write(json.dumps(row | scene.attributes() | {"nuisance": scene.nuisance}) + "\n")
            paths.append(path)
    return paths
