"""Accuracy, losses and failure points by level, with pointwise 95 % intervals, of full grids or of bisection.

A bisected image is answered at few levels; the others follow from the order of levels. What that order gets
wrong, such as an image that is right again at a harder level, is measured on images with the full grid, which
are drawn beforehand, and added (a difference estimator, as of two-phase sampling: Neyman 1938). Where these
images show no error, nothing is added. The unit is a group of images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from counterpose_core.statistics.bootstrap import Flags, Floats, proportion
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.statistics.paired_proportions import paired_difference
from counterpose_core.stress_test.severity.failure_points import failure_place
from counterpose_core.types import Estimate

TOLERANCE = 0.01
"""Share of images that may not follow the order of levels: of more, bisection costs more than it saves.

What it gets wrong is measured on a tenth of the images, so each such image adds ten times its share to the
variance: with 0.8 right, a hundredth half of it (`evaluation/results/severity.json`).
"""

LEVEL = 0.2
"""Level of the test of monotonicity of one operation and classifier: an error only costs classifications.

At 0.1, intervals of an operation of which four in ten images come back covered 0.90 on 192 images.
"""


def is_decided(levels: Sequence[int], before: bool, right: Mapping[int, bool], full: bool) -> bool:
    """Whether the answers to an image suffice: each level of a full grid, else its failure point."""
    if full:
        return all(level in right for level in levels)
    return not before or failure_place(levels, right) is not None


@dataclass(frozen=True)
class LevelAnswers:
    """The answers of a classifier to n images at the k levels of an operation.

    ``groups`` numbers the group of each image (n,), ``before`` tells which are right at level 0 (n,), and
    ``inferred`` what bisection makes of each level (n, k). ``full`` marks the images that have every level
    (n,), for which ``actual`` is what was answered (n, k); elsewhere it repeats ``inferred``.
    """

    levels: Sequence[int]
    groups: npt.NDArray[np.intp]
    before: Flags
    inferred: Flags
    actual: Flags
    full: Flags

    @classmethod
    def of(
        cls,
        levels: Sequence[int],
        groups: npt.NDArray[np.intp],
        before: Flags,
        answers: Sequence[Mapping[int, bool]],
        full: Flags,
    ) -> LevelAnswers:
        """Read what was answered to n images, of which those of ``full`` have each level, the others enough.

        Args:
            levels: those of the operation, the easiest first.
            groups: as of the class.
            before: as of the class.
            answers: whether an image is answered rightly, by the levels that were asked; see `is_decided`.
            full: those that have the full grid by their draw or because all have; never by what was answered,
                for of images that happen to have each level, more are hard to bisect.
        """
        k, everything = len(levels), bool(full.all())
        inferred = np.zeros((len(answers), k), dtype=np.bool_)
        actual = inferred.copy()
        for row, own in enumerate(answers):
            place = failure_place(levels, own) if before[row] else 0
            inferred[row, :place] = True
            actual[row] = [own[level] for level in levels] if full[row] else inferred[row]
        return cls(levels, groups, before, actual if everything else inferred, actual, full)

    def accuracy(self, place: int, generator: np.random.Generator) -> Estimate:
        """Share of the images that are right at a level."""
        return _corrected(self.groups, self.inferred[:, place], self.actual[:, place], self.full, generator)

    def loss(self, place: int, generator: np.random.Generator) -> Estimate:
        """Accuracy at level 0 less that at a level, over the same images."""
        inferred, actual = self.inferred[:, place], self.actual[:, place]
        if _alone(self.groups):
            main = _paired(self.before, inferred)
        else:
            main = bounded_mean(_by_group(self.groups, self.before * 1.0 - inferred), generator)
        # The loss grows where accuracy falls.
        return _joined(main, _correction(self.groups, actual, inferred, self.full, generator), -1.0)

    def failed(self, place: int, generator: np.random.Generator) -> Estimate:
        """Share of the images that are right at level 0 that have failed at a level or before."""
        own = self.before
        inferred = np.logical_not(self.inferred[own, : place + 1].all(axis=1))
        actual = np.logical_not(self.actual[own, : place + 1].all(axis=1))
        return _corrected(self.groups[own], inferred, actual, self.full[own], generator)

    def losses(self, images: Flags) -> Floats:
        """The loss of each group of some images at each level, as bisection says (groups, k)."""
        return _by_group(self.groups[images], (self.before[:, None] * 1.0 - self.inferred)[images])

    def failing(self) -> npt.NDArray[np.intp]:
        """How many images fail at each level, and how many never, of those right at level 0 (k + 1,)."""
        answers = self.actual[self.before]
        k = answers.shape[1]
        places = np.where(answers.all(axis=1), k, (~answers).argmax(axis=1) if k else 0)
        return np.bincount(places, minlength=k + 1)

    def pseudo_values(self) -> Floats:
        """Return what the accuracy at level 0 and at each level is the mean of, by group (groups, k + 1)."""
        right = np.column_stack([self.before, self.inferred]).astype(np.float64)
        errors = np.column_stack([np.zeros(len(right)), self.actual * 1.0 - self.inferred])
        values = _by_group(self.groups, right)
        if self.full.all() or not self.full.any():
            return values
        # Groups are drawn as a whole.
        full = _by_group(self.groups, self.full * 1.0) > 0
        return np.asarray(values + _by_group(self.groups, errors) * (len(full) / full.sum()))


@dataclass(frozen=True)
class Monotonicity:
    """How many independent images of a full grid do not follow the order of levels, and if that is many."""

    n: int
    violated: int
    p: float

    @property
    def is_rejected(self) -> bool:
        """Whether more than the tolerance is shown."""
        return self.p <= LEVEL


def monotonicity(answers: LevelAnswers) -> Monotonicity:
    """Test whether bisection says of an image what its full grid says, at every level.

    One that is wrong at level 0 and right later counts, too. The test is exact: the binomial tail of so many
    groups under `TOLERANCE`.
    """
    full = answers.full
    if not full.any():
        return Monotonicity(0, 0, 1.0)
    wrong = (answers.actual != answers.inferred)[full].any(axis=1)
    groups = _by_group(answers.groups[full], wrong * 1.0) > 0
    n, violated = groups.size, int(groups.sum())
    p = float(scipy.special.bdtrc(violated - 1, n, TOLERANCE)) if violated else 1.0
    return Monotonicity(n, violated, p)


@dataclass(frozen=True)
class LossLevel:
    """The level at which a loss is reached, between levels by straight lines, with a 95 % interval.

    None means "not within the levels": of ``high``, that the loss may not be reached at all.
    """

    level: float | None
    low: float | None
    high: float | None


def loss_level(levels: Sequence[int], losses: Sequence[Estimate], loss: float) -> LossLevel:
    """Return where the losses at the levels, with their pointwise intervals, reach a loss above 0.

    The ends are where the upper ends reach it first, and from where on all lower ends have reached it. With a
    loss that grows by level, each end errs only if one pointwise end does, so the interval covers 95 %.
    """
    estimates, lows, highs = (
        np.array([getattr(each, name) or 0.0 for each in losses]) for name in ("estimate", "low", "high")
    )
    return LossLevel(
        _crossing(levels, estimates, loss),
        _crossing(levels, highs, loss),
        _crossing(levels, np.minimum.accumulate(lows[::-1])[::-1], loss),
    )


def _crossing(levels: Sequence[int], losses: Floats, loss: float) -> float | None:
    at, before = 0.0, 0.0
    for level, value in zip(levels, losses.tolist(), strict=True):
        if value >= loss:
            return float(at + (level - at) * (loss - before) / (value - before))
        at, before = float(level), min(value, loss)
    return None


def _corrected(
    groups: npt.NDArray[np.intp], inferred: Flags, actual: Flags, full: Flags, generator: np.random.Generator
) -> Estimate:
    if not inferred.size:
        return proportion(0, 0)
    if _alone(groups):
        main = proportion(int(inferred.sum()), inferred.size)
    else:
        main = bounded_mean(_by_group(groups, inferred * 1.0), generator, bounds=(0.0, 1.0))
    return _joined(main, _correction(groups, actual, inferred, full, generator), 1.0, (0.0, 1.0))


def _correction(
    groups: npt.NDArray[np.intp], actual: Flags, inferred: Flags, full: Flags, generator: np.random.Generator
) -> Estimate | None:
    """What the order of levels gets wrong; None where nothing is shown to be."""
    wrong = full & (actual != inferred)
    if full.all() or not wrong.any():
        return None
    if _alone(groups):
        return _paired(actual[full], inferred[full])
    return bounded_mean(_by_group(groups[full], actual[full] * 1.0 - inferred[full]), generator)


def _joined(
    main: Estimate, correction: Estimate | None, sign: float, bounds: tuple[float, float] = (-1.0, 1.0)
) -> Estimate:
    """Add a correction to a figure: the distances of the ends are squared and added."""
    if correction is None or main.estimate is None or correction.estimate is None:
        return main
    up, down = (correction.high or 0.0), (correction.low or 0.0)
    ends = sorted((sign * down, sign * up))
    added = sign * correction.estimate
    mean = min(max(main.estimate + added, bounds[0]), bounds[1])
    below = math.hypot(main.estimate - (main.low or 0.0), added - ends[0])
    above = math.hypot((main.high or 0.0) - main.estimate, ends[1] - added)
    low, high = max(bounds[0], mean - below), min(bounds[1], mean + above)
    return Estimate(estimate=mean, low=low, high=high, n=main.n)


def _paired(first: Flags, second: Flags) -> Estimate:
    counts = (first & second, first & ~second, ~first & second, ~first & ~second)
    return paired_difference(*(int(each.sum()) for each in counts))


def _alone(groups: npt.NDArray[np.intp]) -> bool:
    return np.unique(groups).size == groups.size


def _by_group(groups: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> Floats:
    """Return the mean of each group, of values (n,) or (n, k)."""
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    sums = np.zeros((counts.size, *values.shape[1:]))
    np.add.at(sums, places, values)
    return np.asarray(sums / counts.reshape(-1, *([1] * (values.ndim - 1))))
