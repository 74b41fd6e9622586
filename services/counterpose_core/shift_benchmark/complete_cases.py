"""Complete cases: the images that all compared models answered, where models failed on some images.

A model's own figures use every image that it answered. Figures over models, such as the impact, its slope and
the gap, compare models with each other and conditions with each other, so they use the same images for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from counterpose_core.errors import InvalidRequest
from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.generator_gap import RealAnswers
from counterpose_core.statistics.bootstrap import Flags

LEAST_ANSWERED = 0.9
"""A model that answered a smaller share of what the best answering one did is not compared with others.

Otherwise a model that fails often would leave few images for all.
"""


def compared_models(answers: ModelAnswers) -> Flags:
    """Return which models are compared under each shift (shifts, models).

    A model needs enough answers, among the kept images, under the base and under the shift.
    """
    if answers.answered is None:
        return np.ones((len(answers.shifts), len(answers.models)), dtype=np.bool_)
    enough = _enough((answers.kept[..., None] & answers.answered).sum(axis=(1, 2)))
    return np.asarray(enough[1:] & enough[:1])


def complete_cases(answers: ModelAnswers, compared: Flags) -> ModelAnswers:
    """Return the answers of the ``compared`` models (models,) to the images that all of them answered."""
    answered = answers.answered
    if answered is None and compared.all():
        return answers
    kept = answers.kept if answered is None else answers.kept & answered[..., compared].all(axis=-1)
    models = tuple(name for name, flag in zip(answers.models, compared, strict=True) if flag)
    values = answers.values[..., compared]
    return dataclasses.replace(answers, models=models, values=values, kept=kept, answered=None)


def complete_real(real: RealAnswers, compared: Flags) -> tuple[RealAnswers, Flags]:
    """Return the real images that all ``compared`` models (models,) answered, and the models that are left.

    A model that answered too few real images is not compared.

    Raises:
        InvalidRequest: the real answers are those of another number of models.
    """
    if real.values.shape[-1] != len(compared):
        raise InvalidRequest(
            f"the real answers have the shape {real.values.shape}, which are not of {len(compared)} models"
        )
    if real.answered is None:
        return dataclasses.replace(real, values=real.values[..., compared]), compared
    told = (real.there[..., None] & real.answered).sum(axis=(0, 1))
    left = np.asarray(compared & _enough(np.where(compared, told, 0)))
    there = real.there & real.answered[..., left].all(axis=-1)
    return dataclasses.replace(real, values=real.values[..., left], there=there, answered=None), left


def own_cases(answers: ModelAnswers) -> Iterator[ModelAnswers]:
    """Yield the models that answered every kept image, together, and then each other model by itself."""
    if answers.answered is None:
        yield answers
        return
    whole = np.asarray((answers.answered | ~answers.kept[..., None]).all(axis=(0, 1, 2)))
    each = np.eye(len(whole), dtype=np.bool_)[~whole]
    for models in ([whole] if whole.any() else []) + list(each):
        yield complete_cases(answers, models)


def _enough(told: NDArray[np.intp]) -> Flags:
    """Return which models (..., models) answered enough images, of the numbers that they answered."""
    return np.asarray((told > 0) & (told >= LEAST_ANSWERED * told.max(axis=-1, keepdims=True)))
