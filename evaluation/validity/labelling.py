"""Choosing edited images for labels by eye, and sheets that show nothing but the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from counterpose_core.contract.runs import Item
from counterpose_core.types import EDIT_TYPES
from counterpose_miniature.world.scene import ATTRIBUTES, VALUES

from .labels import UNCLEAR, Asked
from .truth import Images

ZOOM = 4
A_SHEET, COLUMNS = 20, 5
_CAPTION = 16


def chosen(items: Sequence[Item], count: int, generator: np.random.Generator) -> list[Item]:
    """``count`` edits that became images, in shuffled order: as many of each type, half of them dropped.

    Where the gate dropped too few of a type, kept ones take their place, and the other way round. No
    image occurs twice.
    """
    found: dict[str, Item] = {}
    for name, share in zip(EDIT_TYPES, _shares(count, len(EDIT_TYPES)), strict=True):
        mine = [item for item in items if item.kind == "edit" and item.edit_type == name and item.result]
        for item in _half_kept(mine, share, generator):
            assert item.result is not None
            found.setdefault(item.result.image, item)
    listed = list(found.values())
    return [listed[at] for at in generator.permutation(len(listed))]


def _shares(count: int, parts: int) -> list[int]:
    return [count // parts + (part < count % parts) for part in range(parts)]


def _half_kept(items: Sequence[Item], count: int, generator: np.random.Generator) -> list[Item]:
    drawn = [items[at] for at in generator.permutation(len(items))]
    kept = [item for item in drawn if item.state == "done"]
    dropped = [item for item in drawn if item.state == "filtered"]
    half = max(count // 2, count - len(kept))
    few = dropped[:half]
    return [*few, *kept[: count - len(few)]]


def asked_of(item: Item, scene: Mapping[str, str]) -> Asked:
    """What an edit should show; ``scene`` is the truth about its source."""
    assert item.result is not None
    assert item.edit_type is not None
    return Asked(
        image=item.result.image,
        edit_type=item.edit_type,
        kept=item.state == "done",
        caption=item.result.caption,
        edited_caption=item.result.edited_caption or item.result.caption,
        scene=dict(scene),
    )


def draw_sheets(images: Images, folder: Path) -> list[Path]:
    """Write sheets of numbered images, enlarged without smoothing; no caption, edit or judge is shown."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, start in enumerate(range(0, len(images), A_SHEET), 1):
        paths.append(folder / f"sheet-{number}.png")
        _sheet(images[start : start + A_SHEET], start + 1).save(paths[-1])
    return paths


def _sheet(images: Images, first: int) -> Image.Image:
    side = ZOOM * images.shape[1]
    rows = -(-len(images) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * side, rows * (side + _CAPTION)), "white")
    pen = ImageDraw.Draw(sheet)
    for at, image in enumerate(images):
        left, top = at % COLUMNS * side, at // COLUMNS * (side + _CAPTION)
        pen.text((left + 4, top + 2), str(first + at), fill="black")
        large = Image.fromarray(image).resize((side, side), Image.Resampling.NEAREST)
        sheet.paste(large, (left, top + _CAPTION))
    return sheet


def blank_table(count: int) -> str:
    """A table to fill in by number: the allowed values, a header, and one line an image."""
    allowed = [f"# {name}: {' '.join([*VALUES[name], UNCLEAR])}" for name in ATTRIBUTES]
    lines = (f"{number}{',' * len(ATTRIBUTES)}" for number in range(1, count + 1))
    return "\n".join([*allowed, ",".join(["number", *ATTRIBUTES]), *lines]) + "\n"
