"""What is edited: development scenes, and one edit of each type that the grammar makes of their captions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterpose_core.types import EDIT_TYPES
from counterpose_miniature.world.grammar import Edit, edits
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, scene_for
from counterpose_miniature.world.wording import TEMPLATES

FIRST_SCENE = 3_000_000
"""The gate and the first presets were chosen on the scenes below this index."""
_STREAM = 0xED17
Drawn = Literal["all", "other-length"]
"""Edits to draw from: all, or those whose caption has another number of words than the original."""


@dataclass(frozen=True)
class Trial:
    """A scene, its caption, and one edit of each type."""

    index: int
    scene: Scene
    edits: tuple[Edit, ...]


def trial(index: int, first: int = FIRST_SCENE, drawn_from: Drawn = "all") -> Trial:
    """Draw the wording and the edits of the index-th scene by the scene's own seed.

    Args:
        index: the scene's number, counted from ``first``.
        first: the index of the first scene.
        drawn_from: edits to draw from; ``other-length`` leaves out types without such an edit.
    """
    scene = scene_for(DEVELOPMENT, first + index, DATASET)
    generator = np.random.default_rng([scene.nuisance, _STREAM])
    template = int(generator.integers(len(TEMPLATES)))
    drawn = []
    for edit_type in EDIT_TYPES:
        # Another class would be another label: the text filter drops such edits before any image.
        kept = [edit for edit in edits(scene, edit_type, template) if edit.attribute != "object_class"]
        if drawn_from == "other-length":
            kept = [edit for edit in kept if _words(edit.caption) != _words(edit.edited_caption)]
        if kept:
            drawn.append(kept[int(generator.integers(len(kept)))])
    return Trial(index, scene, tuple(drawn))


def _words(caption: str) -> int:
    return len(caption.split())
