"""Edits of a rendering server that obeys half of the time, and what judges say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.judges import Verdict
from counterpose_core.stress_test.filters import GateReason
from counterpose_miniature.world.grammar import Edit
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import ATTRIBUTES, VALUES, Scene

FIRST_SCENE = 6_000_000
"""No other measurement edits these development scenes."""
FIRST_REFERENCE = 6_500_000
"""From here on come those that stand for their classes."""
_WRONG = ("ignored", "another value", "something else too", "another object")
FAULTS: Mapping[str, float] = {"obeyed": 0.5, **dict.fromkeys(_WRONG, 0.125)}
"""What the server does with an edit, and how often."""
LEAST_SEEN = 1.0
"""Mean difference in levels from which on two renderings differ."""
STREAM = 0x10D6E

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Row:
    """One edit: what the server did, whether that is right, and what is said of it.

    ``contrast`` is the standard deviation of the edited image's levels.
    """

    source: int
    edit_type: str
    fault: str
    right: bool
    failed: GateReason | None
    direction: float
    contrast: float
    captioner: Verdict
    encoder: Verdict


def served(scene: Scene, edit: Edit, generator: np.random.Generator) -> tuple[str, Image] | None:
    """Return what the server does, and its image; None where the change that was asked for is not seen."""
    before, right = render(scene), render(edit.scene_after)
    if not _differ(before, right):
        return None
    fault = str(generator.choice(list(FAULTS), p=list(FAULTS.values())))
    image = before if fault == "ignored" else render(_shown(scene, edit, fault, generator))
    # A fault that nobody sees is none.
    return (fault, image) if _differ(image, right) else ("obeyed", right)


def _shown(scene: Scene, edit: Edit, fault: str, generator: np.random.Generator) -> Scene:
    after = edit.scene_after
    if fault == "obeyed":
        return after
    if fault == "another object":
        return after.changed("object_class", _other(after, "object_class", generator))
    if fault == "another value":
        taken = (edit.old, edit.new)
        left = [value for value in VALUES[edit.attribute] if value not in taken]
        return scene.changed(edit.attribute, str(generator.choice(left))) if left else scene
    further = [name for name in ATTRIBUTES if name not in (edit.attribute, "object_class")]
    name = str(generator.choice(further))
    return after.changed(name, _other(after, name, generator))


def _other(scene: Scene, name: str, generator: np.random.Generator) -> str:
    return str(generator.choice([value for value in VALUES[name] if value != getattr(scene, name)]))


def _differ(first: Image, second: Image) -> bool:
    return bool(np.abs(first.astype(int) - second).mean() >= LEAST_SEEN)
