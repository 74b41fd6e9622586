"""The confirmation of a stress test: is a change that the screen chose harmful on images it did not use?

The unit is a pair of one source image: its edit by the chosen words, and its placebo. A pair's loss is
p(true class) of the placebo less that of the edit. Fresh source images give one pair each, and stand for
their class. Where there are too few, a source image gives several pairs from noise of their own: then the
test speaks of these images. Nothing here depends on how the screen chose.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.statistics.p_values import holm, sign_flip_p
from counterpose_core.stress_test.screening import LEAST_LOSS, LEVEL
from counterpose_core.types import Estimate

LOOK_PAIRS = 4
"""The pairs after which a hopeless hypothesis is given up."""

FUTILE_LOSS = 0.15
"""A mean loss below this at the look is futile. Stopping for futility cannot raise the error rate."""

MOST_PAIRS = 25
"""More pairs add nothing to the proof of a loss that is worth a finding."""

MARGIN = 0.10
"""A change holds if the interval of its loss ends below this."""

LEAST_REDRAWN = 2
"""Source images that must lose where each gives several pairs."""

LOSING_SHARE = 0.6
"""The share of them that must."""

LEAST_SOURCE_LOSS = 0.10
"""The mean loss of a source image that counts as losing."""

MOST_DRAWS = 6
"""Pairs of one source image."""

MOST_REDRAWN_PAIRS = 20
"""Pairs of one change where source images give several."""

_LABELS_OF_A_PAIR = 2
_MOST_LABELLINGS = 2**14
"""Of the images of one source that are tried; of 13 pairs there are ten million, which took 18 GB."""
_PSEUDO_PAIRS, _PRIOR_MEAN, _PRIOR_VARIANCE = 2, 0.25, 0.10
_LARGEST_BET = 0.9


@dataclass(frozen=True)
class PairColumns:
    """The pairs of one hypothesis as columns, in the order in which they were planned.

    ``sources`` numbers the source image of each pair (n,); ``placebos`` and ``edits`` are p(true class) of
    its two images (n,). ``redrawn``: whether source images give several pairs each, so that the test is of
    these images.
    """

    sources: NDArray[np.int64]
    placebos: Floats
    edits: Floats
    redrawn: bool = False

    @classmethod
    def of(
        cls, sources: Sequence[str], placebos: ArrayLike, edits: ArrayLike, *, redrawn: bool = False
    ) -> Self:
        """Return the columns of pairs whose source images have names."""
        numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
        index = np.array([numbers[source] for source in sources], dtype=np.int64)
        return cls(index, np.asarray(placebos, np.float64), np.asarray(edits, np.float64), redrawn)

    @classmethod
    def fresh(cls, losses: ArrayLike) -> Self:
        """Return the columns of pairs with these losses (n,), each of a source image of its own."""
        values = np.asarray(losses, dtype=np.float64)
        return cls(np.arange(values.size), values, np.zeros(values.size))

    @property
    def losses(self) -> Floats:
        """The loss of each pair (n,), in [-1, 1]."""
        return self.placebos - self.edits

    @property
    def by_source(self) -> Floats:
        """The mean loss of each source image (sources,)."""
        if not self.sources.size:
            return np.zeros(0)
        return np.asarray(np.bincount(self.sources, weights=self.losses) / np.bincount(self.sources))

    @property
    def mean(self) -> float:
        """The mean loss, each source image with weight 1; 0 without pairs."""
        return float(self.by_source.mean()) if self.sources.size else 0.0

    @property
    def is_broad(self) -> bool:
        """Whether enough of the source images lose; where each has one pair, the test itself counts them.

        Several pairs can prove the loss of a single odd image. That is no finding about the classifier.
        """
        losing = int((self.by_source >= LEAST_SOURCE_LOSS).sum())
        return not self.redrawn or losing >= max(LEAST_REDRAWN, LOSING_SHARE * self.by_source.size)


@dataclass(frozen=True)
class ConfirmationTest:
    """The test of one hypothesis: ``p`` by relabelling (1 if stopped for futility), corrected by Holm.

    ``n`` counts pairs, ``mean`` weighs each source image 1, and ``broad`` tells whether enough of them lose.
    """

    n: int
    mean: float
    stopped: bool
    p: float
    p_adjusted: float
    broad: bool = True

    @property
    def confirmed(self) -> bool:
        """Whether the loss is shown, large enough to be worth a finding, and not of one odd image."""
        return self.p_adjusted <= LEVEL and self.mean >= LEAST_LOSS and self.broad


def is_futile(pairs: PairColumns) -> bool:
    """Return whether a hypothesis with these pairs at the look is given up; never before 4 pairs."""
    return pairs.sources.size >= LOOK_PAIRS and pairs.mean < FUTILE_LOSS


def confirm(
    pairs: Sequence[PairColumns], stopped: Sequence[bool], generators: Sequence[np.random.Generator]
) -> list[ConfirmationTest]:
    """Test every hypothesis that was chosen, and correct over all of them, those given up included.

    Args:
        pairs: the pairs of each hypothesis.
        stopped: whether it was given up at the look.
        generators: draws the labellings of each hypothesis, or of one source image, where there are more
            than 2^14.
    """
    raw = [
        1.0 if given_up else relabelled_p(columns, generator)
        for columns, given_up, generator in zip(pairs, stopped, generators, strict=True)
    ]
    return [
        ConfirmationTest(columns.sources.size, columns.mean, given_up, p, adjusted, columns.is_broad)
        for columns, given_up, p, adjusted in zip(pairs, stopped, raw, holm(raw), strict=True)
    ]


def relabelled_p(pairs: PairColumns, generator: np.random.Generator) -> float:
    """Return the one-sided p of "the words do nothing": placebos and edits of a source image change places.

    The statistic is the mean over source images of the mean difference. If the words do nothing, all images
    that are made of a source image from noise of their own are alike, so any half of them could have been
    the placebos. With one pair each, these are sign flips. Of a source image with more than 2^14 choices the
    true one and drawn ones stand for all: under the null hypothesis the true one is alike to each of them.
    """
    singles, relabelled = list[float](), list[Floats]()
    for source in np.unique(pairs.sources):
        mine = pairs.sources == source
        labelled = _mean_differences(pairs.placebos[mine], pairs.edits[mine], generator)
        if labelled.size == _LABELS_OF_A_PAIR:
            singles.append(float(labelled[0]))
        else:
            relabelled.append(labelled)
    return sign_flip_p(singles, generator, relabelled=relabelled)


def _mean_differences(placebos: Floats, edits: Floats, generator: np.random.Generator) -> Floats:
    """Return the mean difference under each choice of the placebos among all images, the true one first."""
    images, n = np.concatenate([placebos, edits]), placebos.size
    if math.comb(2 * n, n) <= _MOST_LABELLINGS:
        chosen = np.array(list(itertools.combinations(range(2 * n), n)))
    else:
        places = np.tile(np.arange(2 * n), (_MOST_LABELLINGS, 1))
        places[1:] = generator.permuted(places[1:], axis=1)
        chosen = places[:, :n]
    return np.asarray((2.0 * images[chosen].sum(axis=1) - images.sum()) / n)


def mean_loss(pairs: PairColumns, generator: np.random.Generator) -> Estimate:
    """Return the mean loss, each source image with weight 1, with a 95 % interval.

    Where source images give several pairs, the interval is over draws, the images given, and n counts pairs:
    the losses are weighted so that their plain mean is the estimate, and bets cover that mean for independent
    draws even if images differ. Otherwise it is over source images.
    """
    if not pairs.redrawn:
        return bounded_mean(pairs.by_source, generator)
    each, n = np.bincount(pairs.sources), pairs.sources.size
    weights = n / (np.count_nonzero(each) * each[pairs.sources]) if n else np.zeros(0)
    bound = float(weights.max(initial=1.0))
    found = bounded_mean(pairs.losses * weights, generator, bounds=(-bound, bound))
    if found.low is None or found.high is None:
        return found
    return found.model_copy(update={"low": max(found.low, -1.0), "high": min(found.high, 1.0)})


def e_value(losses: ArrayLike) -> float:
    """Return the evidence against "the mean loss is not above 0", valid whenever one stops to look.

    E = prod (1 + b_i D_i) with the bet b_i = clip(m / (v + m^2), 0, 0.9), where m and v are mean and variance
    of the pairs before, with two imagined ones of mean 0.25 and variance 0.10. The expectation of E is at
    most 1 if the mean loss is not above 0, so P(E >= 1 / a) <= a for any rule of stopping (Ville 1939;
    Waudby-Smith and Ramdas 2024). Unlike sign flips it takes no symmetry.

    Args:
        losses: the losses of the pairs in the order in which they were planned (n,), in [-1, 1].
    """
    evidence, before = 1.0, list[float]()
    for loss in np.asarray(losses, dtype=np.float64):
        evidence *= 1.0 + next_bet(before) * float(loss)
        before.append(float(loss))
    return evidence


def next_bet(before: Sequence[float]) -> float:
    """Return the share of the evidence to bet on the next pair, from 0 to 0.9, given the losses before it."""
    n = len(before) + _PSEUDO_PAIRS
    mean = (sum(before) + _PSEUDO_PAIRS * _PRIOR_MEAN) / n
    spread = sum((loss - mean) ** 2 for loss in before)
    variance = (spread + _PSEUDO_PAIRS * (_PRIOR_VARIANCE + (_PRIOR_MEAN - mean) ** 2)) / n
    return min(max(mean / (variance + mean**2), 0.0), _LARGEST_BET)


def bets(losses: Floats, counted: NDArray[np.bool_]) -> Floats:
    """Return the same bet before each pair of many series at once.

    Args:
        losses: the losses of each series in planned order (series, n).
        counted: which of them are pairs; the others are passed over (series, n).
    """
    values = losses * counted
    n = counted.cumsum(axis=1) - counted + _PSEUDO_PAIRS
    mean = (values.cumsum(axis=1) - values + _PSEUDO_PAIRS * _PRIOR_MEAN) / n
    squares = (values**2).cumsum(axis=1) - values**2 + _PSEUDO_PAIRS * (_PRIOR_VARIANCE + _PRIOR_MEAN**2)
    # The mean of squares is the variance and the square of the mean.
    return np.asarray(np.clip(mean * n / squares, 0.0, _LARGEST_BET))
