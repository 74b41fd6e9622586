"""Rendered scenes at the size that operations take, and what operations make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from PIL import Image

from counterpose_core.contract.recipes import IDENTITY
from counterpose_core.transforms.application import apply, generator_of
from counterpose_core.transforms.arrays import Matte, Pixels
from counterpose_core.transforms.backgrounds import emptied
from counterpose_core.transforms.table import OPERATIONS
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.scene import Scene

SIDE = 96
"""Pixels of an image's sides: renderings are enlarged, as no blur takes smaller images."""
INPUT = 48
"""Pixels of a network's input; timm's own preparation reduces to it."""

Cell = tuple[str, int]
"""An operation and a level."""

CONTROL: Cell = (IDENTITY, 0)


@dataclass(frozen=True)
class Photograph:
    """A scene as an image (96, 96, 3) with the object's share of each pixel (96, 96)."""

    scene: Scene
    pixels: Pixels
    matte: Matte

    @cached_property
    def emptied(self) -> Pixels:
        """The image without its object, as it stands behind another one's."""
        return emptied(self.pixels, self.matte)


def photograph(scene: Scene) -> Photograph:
    """Render a scene."""
    share = np.rint(255 * object_mask(scene)).astype(np.uint8)
    return Photograph(scene, _enlarged(render(scene)), _enlarged(share))


def _enlarged(values: Pixels) -> Pixels:
    return np.array(Image.fromarray(values).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def as_input(pixels: Pixels) -> Pixels:
    """Reduce an image as timm's preparation does (48, 48, 3)."""
    return np.array(Image.fromarray(pixels).resize((INPUT, INPUT), Image.Resampling.BICUBIC))


def cells_of(operations: Sequence[str]) -> list[Cell]:
    """Every level of operations, the image with nothing changed first."""
    return [CONTROL, *((name, level) for name in operations for level in _levels(name))]


def _levels(name: str) -> range:
    return range(1, OPERATIONS[name].levels + 1)


def changed(one: Photograph, other: Photograph, cell: Cell, seed: int) -> Pixels:
    """Carry out an operation; one that needs another photograph takes ``other``, without its object.

    Random operations draw by the scene, the operation, the level and the seed.
    """
    name, level = cell
    if cell == CONTROL:
        return one.pixels
    row = OPERATIONS[name]
    return apply(
        one.pixels,
        row,
        level,
        generator_of(str(one.scene.nuisance), name, level, seed),
        mask=one.matte if row.needs_mask else None,
        other=other.emptied if row.needs_other else None,
    )


def others_of(
    photographs: Sequence[Photograph], pool: Sequence[Photograph], generator: np.random.Generator
) -> Iterator[Photograph]:
    """For each photograph one of a pool with another class, as a run draws them of its own images."""
    for one in photographs:
        while True:
            other = pool[int(generator.integers(len(pool)))]
            if other.scene.object_class != one.scene.object_class:
                yield other
                break
