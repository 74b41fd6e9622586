"""What one shift costs models over one set of classes: drops, impact, slopes, and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline_core.accuracy_line import ModelAccuracies, Slope, linear_slope, probit_slope
from faultline_core.model_answers import ModelAnswers
from faultline_core.p_values import holm
from faultline_core.shift_filter import Flags
from faultline_core.types import Estimate
from faultline_core.within_class import Comparison, compare

_SHARE, _CHANGE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class ModelDrop:
    """One model's mean per-class accuracies over the same classes, and the difference (DI, A.5)."""

    model: str
    base: Estimate
    shifted: Estimate
    drop: Estimate


@dataclass(frozen=True)
class ShiftEffect:
    """What a shift costs over one set of classes.

    ``impact`` is the drop averaged over models (DI, section 6), n its shifted pictures, ``p`` that of "the
    shift changes nothing", two-sided, and ``p_holm`` the same corrected over all shifts of the benchmark.
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
    """Hold each shift against the base over the classes that count (shifts, classes); None where none do."""
    values, kept = answers.values, answers.kept
    found = compare(values[0], kept[0], values[1:], kept[1:], counted, generator, draws=draws)
    left = [shift for shift, classes in enumerate(counted) if classes.any()]
    sizes = [_Size.of(answers, counted[shift], shift + 1) for shift in left]
    p_values = [
        found.impact.p((shift,), pictures=size.shifted, freedom=size.freedom)
        for shift, size in zip(left, sizes, strict=True)
    ]
    effects: list[ShiftEffect | None] = [None] * len(counted)
    for shift, size, *p in zip(left, sizes, p_values, holm(p_values), strict=True):
        effects[shift] = _effect(answers, counted[shift], found, shift, size, p)
    return effects


@dataclass(frozen=True)
class _Size:
    """How many base and shifted pictures means rest on, and the degrees of freedom of their spread."""

    base: int
    shifted: int
    freedom: int

    @classmethod
    def of(cls, answers: ModelAnswers, counted: Flags, condition: int) -> _Size:
        base, shifted = (int(answers.kept[index][counted].sum()) for index in (0, condition))
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
        base_pictures=size.base,
        shifted_pictures=size.shifted,
        freedom=size.freedom,
    )
    return ShiftEffect(
        classes=answers.classes_where(counted),
        models=tuple(
            _model_drop(name, found, (shift, index), size) for index, name in enumerate(answers.models)
        ),
        impact=found.impact.estimate((shift,), pictures=size.shifted, freedom=size.freedom, bounds=_CHANGE),
        p=p[0],
        p_holm=p[1],
        slope=linear_slope(accuracies),
        probit_slope=probit_slope(accuracies),
    )


def _model_drop(name: str, found: Comparison, at: tuple[int, int], size: _Size) -> ModelDrop:
    return ModelDrop(
        model=name,
        base=found.base.estimate(at, pictures=size.base, freedom=size.freedom, bounds=_SHARE),
        shifted=found.shifted.estimate(at, pictures=size.shifted, freedom=size.freedom, bounds=_SHARE),
        drop=found.drop.estimate(at, pictures=size.shifted, freedom=size.freedom, bounds=_CHANGE),
    )
