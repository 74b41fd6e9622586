"""PIE-Bench's format: a mapping file of captions and masks beside a folder of images (Ju et al. 2024).

``mapping_file.json`` has for each id `image_path` below ``annotation_images``, `original_prompt`,
`editing_prompt`, `editing_instruction`, `editing_type_id`, `blended_word`, and `mask`: starts and lengths of
runs over 512 x 512 pixels, row by row. Ours may also have ``target_images``, the true results, at the same
paths, and ``world.json``, which says that they are of the rendered world.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from PIL import Image

from counterpose_core.errors import InvalidRequest
from counterpose_core.transforms.arrays import Mask, Pixels

MAPPING, IMAGES, TARGETS, WORLD = "mapping_file.json", "annotation_images", "target_images", "world.json"
SIDE = 512
"""Side of the grid of masks, whatever the image's size is."""


@dataclass(frozen=True)
class EditingType:
    """One of PIE-Bench's ten types: its folder there, and its pairs of 700."""

    name: str
    pairs: int

    @property
    def words(self) -> str:
        """The type in words."""
        return self.name.replace("_", " ")


TYPES: Mapping[str, EditingType] = MappingProxyType(
    {
        "0": EditingType("random", 140),
        "1": EditingType("change_object", 80),
        "2": EditingType("add_object", 80),
        "3": EditingType("delete_object", 80),
        "4": EditingType("change_attribute_content", 40),
        "5": EditingType("change_attribute_pose", 40),
        "6": EditingType("change_attribute_color", 40),
        "7": EditingType("change_attribute_material", 40),
        "8": EditingType("change_background", 80),
        "9": EditingType("change_style", 80),
    }
)


@dataclass(frozen=True)
class Pair:
    """An image and what it is to become; ``target`` is the file of the true result, if the set has one."""

    id: str
    type_id: str
    image: Path
    caption: str
    edited_caption: str
    runs: Sequence[int]
    target: Path | None = None

    def mask(self, size: tuple[int, int]) -> Mask:
        """Return where the image was to change, bool (height, width): what covers half of a pixel or more."""
        height, width = size
        whole = decoded(self.runs)
        if size == whole.shape:
            return whole
        shrunk = Image.fromarray((whole * 255).astype(np.uint8)).resize((width, height), Image.Resampling.BOX)
        return np.asarray(shrunk) >= 128


def decoded(runs: Sequence[int]) -> Mask:
    """Return a mask, bool (512, 512), of runs of starts and lengths.

    The border is always in it, as in the published evaluation: annotations end short of it.
    """
    flat = np.zeros(SIDE * SIDE, dtype=np.bool_)
    for start, length in zip(runs[::2], runs[1::2], strict=True):
        flat[start : start + length] = True
    whole = flat.reshape(SIDE, SIDE)
    whole[[0, -1]] = whole[:, [0, -1]] = True
    return whole


def encoded(mask: Mask) -> list[int]:
    """Return the runs of a mask, which is enlarged to 512 x 512 if it is smaller."""
    large = Image.fromarray(mask).resize((SIDE, SIDE), Image.Resampling.NEAREST)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], np.asarray(large).ravel(), [False]])))
    return [number for start, end in edges.reshape(-1, 2).tolist() for number in (start, end - start)]


def read_pixels(file: Path) -> Pixels:
    """Return an image, uint8 (H, W, 3)."""
    with Image.open(file) as image:
        return np.array(image.convert("RGB"))


def read_pairs(folder: Path) -> list[Pair]:
    """Return the pairs of a set, so ordered that the first of them have every type in its share.

    Raises:
        InvalidRequest: a file is missing, or an entry is not of the format.
    """
    file = folder / MAPPING
    if not file.is_file():
        raise InvalidRequest(
            f"{str(file)!r} is missing: give a folder of PIE-Bench's format, or make one with "
            "`python -m evaluation.pie_bench.world FOLDER`"
        )
    entries = json.loads(file.read_bytes())
    pairs = [_pair(folder, name, entry) for name, entry in entries.items()]
    by_type: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_type.setdefault(pair.type_id, []).append(pair)
    places = {
        pair.id: (place + 0.5) / len(alike) for alike in by_type.values() for place, pair in enumerate(alike)
    }
    return sorted(pairs, key=lambda pair: (places[pair.id], pair.type_id))


def _pair(folder: Path, name: str, entry: Mapping[str, Any]) -> Pair:
    try:
        image, type_id = folder / IMAGES / entry["image_path"], str(entry["editing_type_id"])
        # Brackets mark the changed words; they are none.
        old, new = (
            entry[field].replace("[", "").replace("]", "") for field in ("original_prompt", "editing_prompt")
        )
        runs = [int(number) for number in entry["mask"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRequest(
            f"entry {name!r} of {MAPPING} is not of PIE-Bench's format: {error!r}"
        ) from error
    limits = zip(runs[::2], runs[1::2], strict=False)
    if len(runs) % 2 or any(start < 0 or length < 0 or start >= SIDE * SIDE for start, length in limits):
        raise InvalidRequest(f"the mask of {name!r} is no list of starts and lengths over {SIDE} x {SIDE}")
    if type_id not in TYPES:
        raise InvalidRequest(f"{name!r} has the type {type_id!r}; PIE-Bench has {', '.join(TYPES)}")
    if not image.is_file():
        raise InvalidRequest(f"the image {str(image)!r} of {name!r} is missing")
    target = folder / TARGETS / entry["image_path"]
    return Pair(name, type_id, image, old, new, runs, target if target.is_file() else None)
