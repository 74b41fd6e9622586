"""The cost of one shift over one set of classes: drops, impact and slopes, with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.shift_benchmark.accuracy_line import ModelAccuracies, Slope, linear_slope, probit_slope
from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.statistics.p_values import holm
from counterpose_core.statistics.stratified import Comparison, stratified_bootstrap
from counterpose_core.types import Estimate

_SHARE, _CHANGE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class ModelDrop:
    """One model's mean per-class accuracies over the same classes, and their difference (DI, A.5).

    They use the images that the model answered; ``classes`` are those of which it answered enough.
    ``is_compared`` is False if it answered too few images to enter the figures over models.
    """

    model: str
    base: Estimate
    shifted: Estimate
    drop: Estimate
    classes: tuple[str, ...]
    is_compared: bool = True


@dataclass(frozen=True)
class ShiftEffect:
    """The cost of a shift over one set of classes.

    ``impact`` is the drop averaged over models (DI, section 6); its n counts shifted images. ``p`` is the
    two-sided p-value of "the shift changes nothing", and ``p_holm`` is it corrected over all shifts. Where
    models failed on images, all but ``models`` uses the images that all compared models answered.
    """

    classes: tuple[str, ...]
    models: tuple[ModelDrop, ...]
    impact: Estimate
    p: float
    p_holm: float
    slope: Slope
    probit_slope: Slope


def shift_effects(
    answers: ModelAnswers, counted: Flags, generator: np.random.Generator, *, draws: int
) -> list[ShiftEffect | None]:
    """Compare each shift with the base over the classes that count.

    Args:
        answers: the models' answers on base and shifted images, where all answered all kept images.
        counted: the classes that count under each shift (shifts, classes).
        generator: draws the bootstrap.
        draws: the number of bootstrap draws.

    Returns:
        The effect of each shift, or None if no class counts under it.
    """
    values, kept = answers.values, answers.kept
    units = answers.units
    found = stratified_bootstrap(
        values[0],
        kept[0],
        values[1:],
        kept[1:],
        counted,
        generator,
        units=None if units is None else units[0],
        shifted_units=None if units is None else units[1:],
        draws=draws,
    )
    left = [shift for shift, classes in enumerate(counted) if classes.any()]
    sizes = [_Size.of(answers, counted[shift], shift + 1) for shift in left]
    p_values = [
        found.impact.p((shift,), images=size.shifted, freedom=size.freedom)
        for shift, size in zip(left, sizes, strict=True)
    ]
    effects: list[ShiftEffect | None] = [None] * len(counted)
    for shift, size, *p in zip(left, sizes, p_values, holm(p_values), strict=True):
        effects[shift] = _effect(answers, counted[shift], found, shift, size, p)
    return effects


@dataclass(frozen=True)
class _Size:
    """The numbers of base and shifted images behind the means, and the degrees of freedom of their spread.

    A group of images that are not independent counts as one.
    """

    base: int
    shifted: int
    freedom: int

    @classmethod
    def of(cls, answers: ModelAnswers, counted: Flags, condition: int) -> _Size:
        base, shifted = (int(answers.n_units(index)[counted].sum()) for index in (0, condition))
        return cls(base, shifted, min(base, shifted) - int(counted.sum()))


def _effect(
    answers: ModelAnswers, counted: Flags, found: Comparison, shift: int, size: _Size, p: Sequence[float]
) -> ShiftEffect:
    accuracies = ModelAccuracies(
        models=answers.models,
        base=found.base.mean[shift],
        shifted=found.shifted.mean[shift],
        base_draws=found.base.draws[:, shift],
        shifted_draws=found.shifted.draws[:, shift],
        base_images=size.base,
        shifted_images=size.shifted,
        freedom=size.freedom,
    )
    return ShiftEffect(
        classes=answers.classes_where(counted),
        models=tuple(
            _model_drop(name, answers.classes_where(counted), found, (shift, index), size)
            for index, name in enumerate(answers.models)
        ),
        impact=found.impact.estimate((shift,), images=size.shifted, freedom=size.freedom, bounds=_CHANGE),
        p=p[0],
        p_holm=p[1],
        slope=linear_slope(accuracies),
        probit_slope=probit_slope(accuracies),
    )


def _model_drop(
    name: str, classes: tuple[str, ...], found: Comparison, at: tuple[int, int], size: _Size
) -> ModelDrop:
    return ModelDrop(
        model=name,
        base=found.base.estimate(at, images=size.base, freedom=size.freedom, bounds=_SHARE),
        shifted=found.shifted.estimate(at, images=size.shifted, freedom=size.freedom, bounds=_SHARE),
        drop=found.drop.estimate(at, images=size.shifted, freedom=size.freedom, bounds=_CHANGE),
        classes=classes,
    )
