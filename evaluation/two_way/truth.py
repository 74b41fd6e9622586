"""Rendered truth of two conditions: p(true class) with neither, either and both, and the same nuisances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import VALUES, Scene
from evaluation.validity.contestants import Contestant
from evaluation.validity.measures import Floats
from evaluation.validity.predictors import predicting

from .conditions import TWO, Conditions, JointTruth


def falls(
    one: Contestant, scenes: Sequence[Scene], object_class: str, conditions: Conditions
) -> tuple[Floats, Floats]:
    """The fall together beyond the worse condition, and the fall under the worse one, of each scene.

    The worse condition is that of the two with the larger mean fall: the worse one of each scene would be so
    by chance, too.
    """
    of_class = [_without(scene, conditions) for scene in scenes if scene.object_class == object_class]
    first, second = sorted(conditions)
    cells = [
        of_class,
        [scene.changed(*first) for scene in of_class],
        [scene.changed(*second) for scene in of_class],
        [scene.changed(*first).changed(*second) for scene in of_class],
    ]
    true = VALUES["object_class"].index(object_class)
    with predicting(one) as predict:
        neither, left, right, both = (
            predict(np.stack([render(scene) for scene in cell]))[:, true] for cell in cells
        )
    worse = min(left, right, key=np.mean)
    return worse - both, neither - worse


def joint_truth(
    one: Contestant,
    scenes: Sequence[Scene],
    object_class: str,
    conditions: Conditions,
    generator: np.random.Generator,
) -> JointTruth:
    """Render a claim's conditions; unknown with fewer than two."""
    if len(conditions) < TWO:
        return JointTruth()
    return JointTruth(*estimates(falls(one, scenes, object_class, conditions), generator))


def estimates(falls: Iterable[Floats], generator: np.random.Generator) -> list[Estimate]:
    """The mean of each, over scenes."""
    return [bootstrap_mean(each.tolist(), generator) for each in falls]


def _without(scene: Scene, conditions: Conditions) -> Scene:
    """The scene with another value where it shows a condition: the first other one."""
    for attribute, value in sorted(conditions):
        if getattr(scene, attribute) == value:
            scene = scene.changed(attribute, next(each for each in VALUES[attribute] if each != value))
    return scene
