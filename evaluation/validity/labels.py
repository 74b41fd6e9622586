"""Edited images labelled by eye: what was asked of them, what a person sees, and the images themselves.

A folder holds three files, with images in the same order: `images.png` (ten images a row), `edited.json`
(image to attribute to value, by eye) and `asked.json` (what each edit should show).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, TypeAdapter

from counterpose_core.blobs import digest
from counterpose_core.images.codecs import encode_raw
from counterpose_core.types import EditType
from counterpose_miniature.training.stage import write_atomically
from counterpose_miniature.world.renderer import IMAGE_SIDE
from counterpose_miniature.world.scene import ATTRIBUTES, VALUES

from .judging import EditVerdict, verdict
from .truth import Images

LABELS = Path(__file__).resolve().parent.parent / "labels"
SHEET, ASKED, IMAGES = "edited.json", "asked.json", "images.png"
UNCLEAR = "unclear"
"""What a person writes who cannot tell the value; it does not count as a value."""

A_ROW = 10
_TILE = (IMAGE_SIDE, IMAGE_SIDE, 3)

Sheet = dict[str, dict[str, str]]
"""Image to attribute to value."""

_SHEET = TypeAdapter(Sheet)


class Asked(BaseModel):
    """What an edited image should show; its name is the SHA-256 of its bytes in the store."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str
    edit_type: EditType
    kept: bool
    caption: str
    edited_caption: str
    scene: dict[str, str]

    def verdict(self, shown: Mapping[str, str]) -> EditVerdict:
        """Whether what was seen is the counterfactual that was asked for."""
        return verdict(self.caption, self.edited_caption, self.scene, shown)


_ASKED = TypeAdapter(list[Asked])


@dataclass(frozen=True)
class Labelled:
    """An edited image, uint8 [64, 64, 3], and what a person sees in it."""

    asked: Asked
    image: Images
    seen: Mapping[str, str]


def write_labels(folder: Path, asked: Sequence[Asked], images: Images) -> None:
    """Write the images, what was asked of them, and a sheet without labels.

    Raises:
        FileExistsError: there is a sheet already, and it may hold labels.
    """
    if (folder / SHEET).exists():
        raise FileExistsError(f"{str(folder / SHEET)!r} exists: remove it if its labels are not wanted")
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(_grid(images)).save(folder / IMAGES, optimize=True)
    write_atomically(folder / ASKED, _ASKED.dump_json(list(asked), indent=1))
    blank: Sheet = {one.image: dict.fromkeys(ATTRIBUTES, "") for one in asked}
    write_atomically(folder / SHEET, _SHEET.dump_json(blank, indent=1))


def enter(table: Path, folder: Path = LABELS) -> None:
    """Copy a filled-in table, one line an image by number, into the sheet.

    Raises:
        ValueError: the lines' numbers are not those of the folder's images.
    """
    lines = [line for line in table.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = {row["number"]: row for row in csv.DictReader(lines)}
    asked = _ASKED.validate_json((folder / ASKED).read_bytes())
    if set(rows) != {str(number) for number in range(1, len(asked) + 1)}:
        raise ValueError(f"{str(table)!r} does not number the {len(asked)} images of {str(folder)!r}")
    sheet: Sheet = {
        one.image: {name: rows[str(number)][name].strip() for name in ATTRIBUTES}
        for number, one in enumerate(asked, 1)
    }
    write_atomically(folder / SHEET, _SHEET.dump_json(sheet, indent=1))


def read_labels(folder: Path = LABELS) -> list[Labelled]:
    """The labelled images of a folder; none where there is no sheet, or it is still blank.

    Raises:
        ValueError: an image does not match its digest, or has no usable label.
    """
    if not (folder / SHEET).exists():
        return []
    asked = _ASKED.validate_json((folder / ASKED).read_bytes())
    sheet = _SHEET.validate_json((folder / SHEET).read_bytes())
    if not any(value for values in sheet.values() for value in values.values()):
        return []
    grid = np.asarray(Image.open(folder / IMAGES).convert("RGB"))
    tiles = grid.reshape(-1, IMAGE_SIDE, A_ROW, IMAGE_SIDE, 3).swapaxes(1, 2).reshape(-1, *_TILE)
    # The last row is padded.
    pairs = zip(asked, tiles[: len(asked)], strict=True)
    return [_labelled(number, one, tile, sheet) for number, (one, tile) in enumerate(pairs, 1)]


def _labelled(number: int, asked: Asked, tile: Images, sheet: Sheet) -> Labelled:
    if digest(encode_raw(np.ascontiguousarray(tile))) != asked.image:
        raise ValueError(f"image {number} is not {asked.image!r}")
    seen = sheet.get(asked.image, {})
    for name in ATTRIBUTES:
        if seen.get(name) not in (*VALUES[name], UNCLEAR):
            raise ValueError(
                f"image {number}: {name} is {seen.get(name)!r}, not {UNCLEAR!r} or one of {VALUES[name]}"
            )
    return Labelled(asked, tile, seen)


def _grid(images: Images) -> Images:
    rows = -(-len(images) // A_ROW)
    tiles = np.zeros((rows * A_ROW, *_TILE), dtype=np.uint8)
    tiles[: len(images)] = images
    return tiles.reshape(rows, A_ROW, *_TILE).swapaxes(1, 2).reshape(rows * IMAGE_SIDE, -1, 3)
