"""Rendered truth: the user's dataset under each shift, and the classifiers' answers to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import Scene

from .world_shifts import WorldShift

Renderings = NDArray[np.uint8]
"""Images (conditions, classes, scenes, height, width, 3): the base first, then each shift."""

Predict = Callable[[NDArray[np.uint8]], NDArray[np.floating]]
"""Probabilities (n, classes) of images (n, height, width, 3)."""


def rendered(scenes: Mapping[str, Sequence[Scene]], shifts: Sequence[WorldShift]) -> Renderings:
    """Render each class's scenes as they are and under each shift, with the same nuisances.

    Raises:
        ValueError: classes have unequal numbers of scenes.
    """
    if len({len(each) for each in scenes.values()}) > 1:
        raise ValueError("truth needs equally many scenes of each class")
    conditions: list[Callable[[Scene], Scene]] = [lambda scene: scene, *(shift.of for shift in shifts)]
    return np.stack(
        [
            np.stack([np.stack([render(change(scene)) for scene in each]) for each in scenes.values()])
            for change in conditions
        ]
    )


def true_answers(
    renderings: Renderings,
    classes: Sequence[str],
    shifts: Sequence[WorldShift],
    models: Mapping[str, Predict],
    heads: Sequence[str],
) -> ModelAnswers:
    """Each model's answers to the renderings; ``heads`` are the classes of its output, in order."""
    flat = renderings.reshape(-1, *renderings.shape[3:])
    true = np.array([heads.index(name) for name in classes])[None, :, None]
    right = [
        predict(flat).argmax(axis=1).reshape(renderings.shape[:3]) == true for predict in models.values()
    ]
    made = np.ones(renderings.shape[:3], dtype=np.bool_)
    return ModelAnswers(
        models=tuple(models),
        conditions=(BASE, *(shift.name for shift in shifts)),
        classes=tuple(classes),
        values=np.stack(right, axis=-1),
        made=made,
        kept=made,
    )
