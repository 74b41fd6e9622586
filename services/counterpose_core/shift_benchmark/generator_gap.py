"""The cost of the generator alone: accuracies on its base images compared with real images."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.statistics.stratified import Comparison, Units, count_units, stratified_bootstrap
from counterpose_core.types import Estimate

Confounding = Literal["confounded", "not-confounded", "cannot-tell"]

_SHARE, _CHANGE, _SUM = (0.0, 1.0), (-1.0, 1.0), (-2.0, 2.0)


@dataclass(frozen=True)
class RealAnswers:
    """Values (classes, images, models) of the benchmark's classes and models on real validation images.

    ``there`` (classes, images) says which images exist, as classes may have different numbers of images.
    ``units`` (classes, images) is the index of the first image of each image's group, where images are not
    independent. ``answered`` (classes, images, models) says which models have an answer, None if all do.
    """

    values: NDArray[np.bool_] | NDArray[np.floating]
    there: Flags
    units: Units | None = None
    answered: Flags | None = None


@dataclass(frozen=True)
class ConfounderGap:
    """Accuracy on real images minus accuracy on the generator's base images, averaged over models.

    The classes are those that count under a shift; n counts real images. If the gap is larger than the cost
    of the shift, that cost may come from how the generator draws these classes (DI, section 5).
    ``beyond_impact`` is the absolute gap minus the absolute impact of the shift. Its interval is above 0
    where the gap is larger, below 0 where it is smaller, and holds 0 where neither can be told.
    """

    real: Estimate
    base: Estimate
    gap: Estimate
    beyond_impact: Estimate

    @property
    def confounding(self) -> Confounding:
        """Whether the generator alone costs the models more than the shift does, as far as can be told."""
        low, high = self.beyond_impact.low, self.beyond_impact.high
        if low is not None and low > 0.0:
            return "confounded"
        return "not-confounded" if high is not None and high < 0.0 else "cannot-tell"


def confounder_gaps(
    answers: ModelAnswers, real: RealAnswers, counted: Flags, generator: np.random.Generator, *, draws: int
) -> list[ConfounderGap | None]:
    """Return the gap over the classes that count under each shift, or None if no class does.

    Args:
        answers: the answers on the benchmark's images, where all models answered all kept ones.
        real: the answers of the same models on real images of the same classes, of which the same holds.
        counted: the classes that count under each shift (shifts, classes).
        generator: draws the bootstrap.
        draws: the number of bootstrap draws.

    Raises:
        InvalidRequest: the real answers do not have the benchmark's classes and models.
        DatasetEmpty: a class that counts has no real image.
    """
    _check(answers, real, counted)
    gaps, impacts = _drawn_together(answers, real, counted, generator, draws)
    found: list[ConfounderGap | None] = []
    for shift, classes in enumerate(counted):
        if not classes.any():
            found.append(None)
            continue
        n = int(count_units(real.there, real.units)[classes].sum())
        generated, shifted = (int(answers.n_units(at)[classes].sum()) for at in (0, shift + 1))
        freedom, at = min(n, generated) - int(classes.sum()), (shift, 0)
        gap = gaps.drop.estimate(at, images=n, freedom=freedom, bounds=_CHANGE)
        sides = [
            gaps.drop.plus(impacts.drop, sign).estimate(
                at, images=min(n, shifted), freedom=min(freedom, shifted - int(classes.sum())), bounds=_SUM
            )
            for sign in (1.0, -1.0)
        ]
        found.append(
            ConfounderGap(
                real=gaps.base.estimate(at, images=n, freedom=freedom, bounds=_SHARE),
                base=gaps.shifted.estimate(at, images=generated, freedom=freedom, bounds=_SHARE),
                gap=gap,
                beyond_impact=_larger(gap, *sides),
            )
        )
    return found


def _drawn_together(
    answers: ModelAnswers, real: RealAnswers, counted: Flags, generator: np.random.Generator, draws: int
) -> tuple[Comparison, Comparison]:
    """Compare real with base images and base with shifted ones, in the same draws of seeds."""
    # Concatenated along images, so they are not paired: draws of real and generated images are independent.
    count = real.there.shape[1]
    means = _over_models(answers.values)
    blank = np.zeros((*real.there.shape, 1), dtype=np.float32)
    values = np.concatenate([_over_models(real.values), means[0]], axis=1)
    there = np.concatenate([real.there, answers.kept[0]], axis=1)
    is_real = np.arange(there.shape[1]) < count
    seed = int(generator.integers(2**63))
    shifted = np.stack([np.concatenate([blank, each], axis=1) for each in means[1:]])
    left = np.stack([np.concatenate([real.there & False, each], axis=1) for each in answers.kept[1:]])
    every = (len(counted), *values.shape)
    units, shifted_units = _units(answers, real)
    gaps = stratified_bootstrap(
        values,
        there & is_real,
        np.broadcast_to(values, every),
        np.broadcast_to(there & ~is_real, every[:-1]),
        counted,
        np.random.default_rng(seed),
        units=units,
        shifted_units=None if units is None else np.broadcast_to(units, every[:-1]),
        draws=draws,
    )
    # The same seed and the same shapes, so the same images are drawn.
    impacts = stratified_bootstrap(
        values,
        there & ~is_real,
        shifted,
        left,
        counted,
        np.random.default_rng(seed),
        units=units,
        shifted_units=shifted_units,
        draws=draws,
    )
    return gaps, impacts


def _units(answers: ModelAnswers, real: RealAnswers) -> tuple[Units | None, Units | None]:
    """Return the units of real and base images (classes, images), and of shifted ones behind real ones."""
    if answers.units is None and real.units is None:
        return None, None
    count = real.there.shape[1]
    own = np.broadcast_to(np.arange(count), real.there.shape) if real.units is None else real.units
    generated = answers.units
    if generated is None:
        generated = np.broadcast_to(np.arange(answers.kept.shape[2]), answers.kept.shape)
    behind = [np.concatenate([own, count + each], axis=1) for each in generated]
    return behind[0], np.stack(behind[1:])


def _larger(gap: Estimate, total: Estimate, difference: Estimate) -> Estimate:
    """Return |gap| - |impact| from the intervals of gap + impact and gap - impact.

    |g| - |i| has the sign of (g + i)(g - i) and the size of the smaller factor. A bootstrap of the absolute
    values themselves would be biased upwards near 0, where they fold.
    """
    ends = [(total.low, total.high), (difference.low, difference.high)]
    corners = [
        [end for end in pair if end is not None] + [0.0] * ((pair[0] or 0.0) < 0.0 < (pair[1] or 0.0))
        for pair in ends
    ]
    sizes = [_smaller(one, other) for one, other in product(*corners)]
    middle = _smaller(total.estimate or 0.0, difference.estimate or 0.0)
    low, high = (float(np.clip(end, *_CHANGE)) for end in (min(sizes), max(sizes)))
    return Estimate(estimate=middle, low=min(low, middle), high=max(high, middle), n=gap.n)


def _smaller(one: float, other: float) -> float:
    return float(np.sign(one * other)) * min(abs(one), abs(other))


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
    return np.asarray(values.mean(axis=-1, keepdims=True, dtype=np.float32))
