"""A drop beyond what the controls cost: the difference that is tested, and how small a one would be found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from faultline_core.p_values import FLIPS, sign_flip_p
from faultline_core.statistics import DRAWS, Floats, bootstrap_mean
from faultline_core.types import Estimate

LEAST_SOURCES = 20
"""Under it a difference is reported but not judged."""

LEAST_PLACEBOS = 5
"""Under it a class's own placebo effect is too unsure to be subtracted."""

POWER = 0.8

_BOUNDS = (-2.0, 2.0)
_NO_SPREAD = 1e-9


@dataclass(frozen=True)
class Contrast:
    """The mean over ``n`` sources of a drop less the placebo effect of the source's class.

    ``parts`` (m,) is what each source adds to ``n`` times that mean, m >= n: the sources whose placebos
    were averaged stand in it too, with their deviation from the average, so that flipping the signs of
    parts counts the uncertainty of the placebo effect. The first ``n`` are the sources themselves.
    Where a source has a placebo and several edits, ``relabelled`` holds what its part would be were
    another of these pictures the placebo, less a rest that stands in ``flipped`` with all other parts.
    """

    parts: Floats
    n: int
    flipped: Floats
    relabelled: tuple[Floats, ...] = ()

    @property
    def mean(self) -> float:
        """The difference."""
        return float(self.parts.sum()) / self.n

    @property
    def deviations(self) -> Floats:
        """``parts`` (m,) as they would be without any difference; they sum to 0."""
        own = np.arange(self.parts.size) < self.n
        return self.parts - own * self.mean

    def p(self, generator: np.random.Generator, *, draws: int = FLIPS) -> float:
        """One-sided p of "the difference is not above 0", by flipping the signs of sources."""
        return sign_flip_p(self.flipped, generator, relabelled=self.relabelled, draws=draws)

    def estimate(self, generator: np.random.Generator, *, draws: int = DRAWS) -> Estimate:
        """The difference with its interval, which counts the uncertainty of the placebo effects."""
        scaled = self.mean + self.deviations * (self.parts.size / self.n)
        return bootstrap_mean(list(scaled), generator, bounds=_BOUNDS, draws=draws).model_copy(
            update={"n": self.n}
        )

    def detectable(self, level: float) -> float | None:
        """The drop that the test at ``level`` finds with 80 % power, None where it finds none up to 1.

        d = (t_level + t_power) s / sqrt(n), with Student's quantiles of n - 1 degrees of freedom and
        s^2 = sum of squared ``deviations`` / (n - 1). Where nothing deviates, d is the share of sources
        that must drop by 1 so that with 80 % probability as many do as flipping signs needs,
        log2(1 / level).
        """
        needed = math.ceil(-math.log2(level))
        if needed > self.n or level * (FLIPS + 1) < 1.0:
            return None
        spread = math.sqrt(float(np.sum(self.deviations**2)) / (self.n - 1)) if self.n > 1 else 0.0
        if spread < _NO_SPREAD:
            return float(stats.beta.ppf(POWER, needed, self.n - needed + 1))
        reach = float(stats.t.isf(level, self.n - 1) + stats.t.ppf(POWER, self.n - 1))
        drop = reach * spread / math.sqrt(self.n)
        return drop if drop <= 1.0 else None


@dataclass(frozen=True)
class _Pool:
    """The sources whose mean stands for a class's placebo effect."""

    sources: tuple[str, ...]
    mean: float

    @property
    def weight(self) -> float:
        """1 / m, widened by sqrt(m / (m - 1)): deviations from the pool's own mean are too small by that."""
        return 1.0 / math.sqrt(len(self.sources) * (len(self.sources) - 1))


@dataclass(frozen=True)
class PlaceboEffects:
    """What being edited without a change of meaning costs one classifier, by source.

    ``effects`` maps a source to p(true class) of its reconstruction less that of its placebo,
    ``classes`` every source to its class.
    """

    classes: Mapping[str, str]
    effects: Mapping[str, float]

    def contrast(self, drops: Mapping[str, Sequence[float]]) -> Contrast | None:
        """Hold the mean drop of each source's edits against the placebo effect of its class.

        ``drops`` maps a source to p(true class) of its reconstruction less that of each of its edits.
        The placebo effect is the mean over the sources of the class. A class with fewer than
        ``LEAST_PLACEBOS`` placebos is held against the mean over the sources of all classes; with fewer
        than that in all classes together, or without any drop, there is no contrast.
        """
        if not drops or len(self.effects) < LEAST_PLACEBOS:
            return None
        pools = {source: self._pools[self.classes[source]] for source in drops}
        parts = {source: _mean(found) - pools[source].mean for source, found in drops.items()}
        weights: dict[str, float] = {}
        for pool, users in Counter(pools.values()).items():
            for source in pool.sources:
                weight = users * pool.weight
                parts[source] = parts.get(source, 0.0) - weight * (self.effects[source] - pool.mean)
                weights[source] = weights.get(source, 0.0) + weight
        relabelled = {
            source: (1.0 + weights[source]) / 2.0 * _relabelled(self.effects[source], found)
            for source, found in drops.items()
            if len(found) > 1 and source in weights
        }
        rest = {source: options[0] for source, options in relabelled.items()}
        return Contrast(
            parts=np.array(list(parts.values())),
            n=len(drops),
            flipped=np.array([part - rest.get(source, 0.0) for source, part in parts.items()]),
            relabelled=tuple(relabelled.values()),
        )

    @cached_property
    def _pools(self) -> dict[str, _Pool]:
        own: dict[str, list[str]] = {name: [] for name in self.classes.values()}
        for source in self.effects:
            own[self.classes[source]].append(source)
        everyone = self._pool(list(self.effects))
        return {
            name: self._pool(found) if len(found) >= LEAST_PLACEBOS else everyone
            for name, found in own.items()
        }

    def _pool(self, sources: Sequence[str]) -> _Pool:
        return _Pool(tuple(sources), _mean([self.effects[source] for source in sources]))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _relabelled(placebo: float, drops: Sequence[float]) -> Floats:
    """The mean drop less the placebo effect (k + 1,), with each picture as the placebo, the true one first.

    A mean of several edits is less skewed than one placebo: flipping the sign of their difference found
    8 % false alarms at 5 %, drawing which of the pictures is the placebo is exact.
    """
    values: Floats = np.array([placebo, *drops])
    relabelled: Floats = values.sum() / len(drops) - values * (1.0 + 1.0 / len(drops))
    return relabelled
