"""Groups of images that are not independent: the ``group`` column of a folder's own metadata."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from counterpose._datasets.uploads import LabelledImage
from counterpose_core.errors import InvalidRequest

METADATA = ("metadata.jsonl", "metadata.csv")
"""The first one that a folder has is read."""


def read_groups(folder: Path) -> dict[str, str]:
    """Read the group of each image, by its path below the folder; images without one are left out.

    A line of ``metadata.jsonl`` is ``{"file_name": "plate/1.png", "group": "video-3"}``; ``metadata.csv`` has
    columns of these names. Both may have others.

    Raises:
        InvalidRequest: the file cannot be read, or a line has another form.
    """
    path = next((folder / name for name in METADATA if (folder / name).is_file()), None)
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {str(path)!r}: {error}") from error
    if path.suffix == ".csv":
        rows: list[tuple[int, Any]] = list(enumerate(csv.DictReader(lines), start=2))
    else:
        rows = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    groups: dict[str, str] = {}
    for number, row in rows:
        try:
            note = json.loads(row) if isinstance(row, str) else row
            name, group = note["file_name"], note.get("group")
            if not isinstance(name, str) or not isinstance(group, str | None):
                raise TypeError("no text")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InvalidRequest(
                f'line {number} of {str(path)!r} is not {{"file_name": ..., "group": ...}}'
            ) from error
        if group:
            groups[name] = group
    return groups


def require_one_class(images: Iterable[LabelledImage]) -> None:
    """Refuse a group whose images are of several classes, before any of them is sent.

    Raises:
        InvalidRequest: a group spans classes; both are named.
    """
    class_of: dict[str, str] = {}
    for image in images:
        if image.group is not None and class_of.setdefault(image.group, image.label) != image.label:
            raise InvalidRequest(
                f"the group {image.group!r} has images of the classes {class_of[image.group]!r} and "
                f"{image.label!r}; give each class groups of its own"
            )
