"""What is edited: development scenes, and one edit of each type that the grammar makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline_core.types import EDIT_TYPES
from faultline_miniature.world.grammar import TEMPLATES, Edit, edits
from faultline_miniature.world.sampling import DATASET
from faultline_miniature.world.scene import Scene
from faultline_miniature.world.seeds import DEVELOPMENT, scene_for

FIRST_SCENE = 3_000_000
"""Scenes below are those that the gate and the first presets were chosen on."""
_STREAM = 0xED17


@dataclass(frozen=True)
class Trial:
    """A scene and its edits, one of each type, of one caption."""

    index: int
    scene: Scene
    edits: tuple[Edit, ...]


def trial(index: int, first: int = FIRST_SCENE) -> Trial:
    """Draw the wording and the edits of the index-th scene by the scene's own seed."""
    scene = scene_for(DEVELOPMENT, first + index, DATASET)
    generator = np.random.default_rng([scene.nuisance, _STREAM])
    template = int(generator.integers(len(TEMPLATES)))
    drawn = []
    for edit_type in EDIT_TYPES:
        # Another class would be another label: the text filter drops such edits before any image.
        kept = [edit for edit in edits(scene, edit_type, template) if edit.attribute != "object_class"]
        drawn.append(kept[int(generator.integers(len(kept)))])
    return Trial(index, scene, tuple(drawn))
