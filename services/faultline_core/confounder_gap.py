"""What the generator alone costs models: its base pictures held against real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline_core.errors import DatasetEmpty, InvalidRequest
from faultline_core.model_answers import ModelAnswers
from faultline_core.shift_filter import Flags
from faultline_core.types import Estimate
from faultline_core.within_class import compare

_SHARE, _CHANGE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class RealAnswers:
    """Values (classes, pictures, models) of the benchmark's classes and models on real validation pictures.

    ``there`` (classes, pictures) says which pictures there are: not every class has equally many.
    """

    values: NDArray[np.bool_] | NDArray[np.floating]
    there: Flags


@dataclass(frozen=True)
class ConfounderGap:
    """Accuracy on real pictures less that on the generator's base pictures, averaged over models.

    Over the classes that count under a shift; n counts real pictures. Where the gap is larger than what
    the shift costs, that cost may be how the generator draws these classes (DI, section 5).
    """

    real: Estimate
    base: Estimate
    gap: Estimate

    def exceeds(self, impact: Estimate) -> bool:
        """Whether the gap, up or down, is larger than a shift's impact."""
        if self.gap.estimate is None or impact.estimate is None:
            return False
        return abs(self.gap.estimate) > abs(impact.estimate)


def confounder_gaps(
    answers: ModelAnswers, real: RealAnswers, counted: Flags, generator: np.random.Generator, *, draws: int
) -> list[ConfounderGap | None]:
    """The gap over the classes that count under each shift (shifts, classes); None where none does.

    Raises:
        InvalidRequest: the real answers are not of the benchmark's classes and models.
        DatasetEmpty: a class that counts has no real picture.
    """
    _check(answers, real, counted)
    # Side by side along the pictures and paired with nothing: a draw of one says nothing of the other.
    values = np.concatenate([_over_models(real.values), _over_models(answers.values[0])], axis=1)
    there = np.concatenate([real.there, answers.kept[0]], axis=1)
    is_real = np.arange(there.shape[1]) < real.there.shape[1]
    found = compare(
        values,
        there & is_real,
        np.broadcast_to(values, (len(counted), *values.shape)),
        np.broadcast_to(there & ~is_real, (len(counted), *there.shape)),
        counted,
        generator,
        draws=draws,
    )
    gaps: list[ConfounderGap | None] = []
    for shift, classes in enumerate(counted):
        if not classes.any():
            gaps.append(None)
            continue
        n, generated = int(real.there[classes].sum()), int(answers.kept[0][classes].sum())
        freedom, at = min(n, generated) - int(classes.sum()), (shift, 0)
        gaps.append(
            ConfounderGap(
                real=found.base.estimate(at, pictures=n, freedom=freedom, bounds=_SHARE),
                base=found.shifted.estimate(at, pictures=generated, freedom=freedom, bounds=_SHARE),
                gap=found.drop.estimate(at, pictures=n, freedom=freedom, bounds=_CHANGE),
            )
        )
    return gaps


def _check(answers: ModelAnswers, real: RealAnswers, counted: Flags) -> None:
    expected = (len(answers.classes), real.there.shape[-1], len(answers.models))
    if real.values.shape != expected or real.there.shape != expected[:2]:
        raise InvalidRequest(f"real answers of the shape {real.values.shape} are not {expected}")
    without = counted.any(axis=0) & ~real.there.any(axis=1)
    if without.any():
        name = answers.classes[int(np.argmax(without))]
        raise DatasetEmpty(f"the class {name!r} has no real picture to hold its generated ones against")


def _over_models(values: NDArray[np.bool_] | NDArray[np.floating]) -> NDArray[np.float32]:
    return np.asarray(values.mean(axis=2, keepdims=True, dtype=np.float32))
