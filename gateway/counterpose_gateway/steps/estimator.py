"""Estimates with intervals, clustered by source, each from a separate random generator."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from counterpose_core.statistics.bootstrap import bootstrap_ratio, mean_by_source
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.statistics.coded import Flags, Floats, Ints, counts_by, means_by
from counterpose_core.types import Estimate
from counterpose_gateway.runs.seeds import derive_seed

CHANGE = (-1.0, 1.0)
"""The bounds of a change of a share or of a probability."""


class Estimator:
    """Makes each figure from a separate generator, so that an additional figure changes no other."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generator(self, figure: str) -> np.random.Generator:
        """The figure's own generator."""
        return np.random.default_rng(derive_seed(self._seed, "figure", figure))

    def mean(
        self, figure: str, pairs: Iterable[tuple[str, float]], bounds: tuple[float, float] = CHANGE
    ) -> Estimate:
        """The mean over sources of the mean within each, from (source, value) pairs."""
        values = list(mean_by_source(pairs).values())
        return bounded_mean(values, self.generator(figure), bounds=bounds)

    def mean_of(
        self, figure: str, units: Ints, values: Floats, bounds: tuple[float, float] = CHANGE
    ) -> Estimate:
        """The same as `mean`, from columns of the units' numbers and the values."""
        means = means_by(units, values) if len(units) else np.zeros(0)
        return bounded_mean(means, self.generator(figure), bounds=bounds)

    def share_of(self, figure: str, units: Ints, true: Flags) -> Estimate:
        """The same as `share`, from columns of the units' numbers and of flags."""
        counts = counts_by(units, true)[1] if len(units) else np.zeros((0, 2))
        table = dict(enumerate(map(tuple, counts.astype(np.int64).tolist())))
        return bootstrap_ratio(table, self.generator(figure))

    def share(self, figure: str, decided: Iterable[tuple[str, bool]]) -> Estimate:
        """The share of images with a property, from (source, whether the image has it)."""
        return bootstrap_ratio(count_by_source(decided), self.generator(figure))


def count_by_source(decided: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """Source → (number of true values, number of values)."""
    counts: dict[str, tuple[int, int]] = {}
    for source, true in decided:
        before, reached = counts.get(source, (0, 0))
        counts[source] = (before + true, reached + 1)
    return counts
