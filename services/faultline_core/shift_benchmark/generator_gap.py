"""The cost of the generator alone: accuracies on its base images compared with real images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline_core.errors import DatasetEmpty, InvalidRequest
from faultline_core.shift_benchmark.answers import ModelAnswers
from faultline_core.statistics.bootstrap import Flags
from faultline_core.statistics.stratified import stratified_bootstrap
from faultline_core.types import Estimate

_SHARE, _CHANGE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class RealAnswers:
    """Values (classes, images, models) of the benchmark's classes and models on real validation images.

    ``there`` (classes, images) says which images exist, as classes may have different numbers of images.
    """

    values: NDArray[np.bool_] | NDArray[np.floating]
    there: Flags


@dataclass(frozen=True)
class ConfounderGap:
    """Accuracy on real images minus accuracy on the generator's base images, averaged over models.

    The classes are those that count under a shift; n counts real images. If the gap is larger than the cost
    of the shift, that cost may come from how the generator draws these classes (DI, section 5).
    """

    real: Estimate
    base: Estimate
    gap: Estimate

    def exceeds(self, impact: Estimate) -> bool:
        """Return True if the absolute gap is larger than a shift's absolute impact."""
        if self.gap.estimate is None or impact.estimate is None:
            return False
        return abs(self.gap.estimate) > abs(impact.estimate)


def confounder_gaps(
    answers: ModelAnswers, real: RealAnswers, counted: Flags, generator: np.random.Generator, *, draws: int
) -> list[ConfounderGap | None]:
    """Return the gap over the classes that count under each shift, or None if no class does.

    Args:
        answers: the answers on the benchmark's images.
        real: the answers on real images of the same classes.
        counted: the classes that count under each shift (shifts, classes).
        generator: draws the bootstrap.
        draws: the number of bootstrap draws.

    Raises:
        InvalidRequest: the real answers do not have the benchmark's classes and models.
        DatasetEmpty: a class that counts has no real image.
    """
    _check(answers, real, counted)
    # Concatenated along images, so they are not paired: draws of real and generated images are independent.
    values = np.concatenate([_over_models(real.values), _over_models(answers.values[0])], axis=1)
    there = np.concatenate([real.there, answers.kept[0]], axis=1)
    is_real = np.arange(there.shape[1]) < real.there.shape[1]
    found = stratified_bootstrap(
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
                real=found.base.estimate(at, images=n, freedom=freedom, bounds=_SHARE),
                base=found.shifted.estimate(at, images=generated, freedom=freedom, bounds=_SHARE),
                gap=found.drop.estimate(at, images=n, freedom=freedom, bounds=_CHANGE),
            )
        )
    return gaps


def _check(answers: ModelAnswers, real: RealAnswers, counted: Flags) -> None:
    expected = (len(answers.classes), real.there.shape[-1], len(answers.models))
    if real.values.shape != expected or real.there.shape != expected[:2]:
        raise InvalidRequest(f"the real answers have the shape {real.values.shape}, not {expected}")
    without = counted.any(axis=0) & ~real.there.any(axis=1)
    if without.any():
        name = answers.classes[int(np.argmax(without))]
        raise DatasetEmpty(
            f"the class {name!r} has no real image to compare its generated images with; add some"
        )


def _over_models(values: NDArray[np.bool_] | NDArray[np.floating]) -> NDArray[np.float32]:
    return np.asarray(values.mean(axis=2, keepdims=True, dtype=np.float32))
