"""The ranks of classifiers by level, with the ranks that cannot be excluded, from the same images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from counterpose_core.statistics.bootstrap import CONFIDENCE, DRAWS, Floats

LEAST_GROUPS = 20
"""Independent images below which no difference is shown: a bootstrap says too much of fewer."""


@dataclass(frozen=True)
class Rank:
    """The rank of a classifier, 1 for the most accurate, and the least and the greatest that it may have."""

    rank: int
    low: int
    high: int


def ranks_by_level(
    values: Mapping[str, Floats], generator: np.random.Generator
) -> tuple[list[dict[str, Rank]], list[tuple[str, str, int]]]:
    """Rank classifiers at level 0 and at each level.

    Every pair is compared at every level by differences of the same groups; the intervals of all pairs and
    levels hold together with 95 % (the bootstrap's greatest |t|), and so do the ranks: one that is shown
    to be better counts before, one that is shown to be worse behind (Klein, Wright and Wieczorek 2020).

    Args:
        values: of each classifier, values of each group whose mean is its accuracy at level 0 and at each
            level (groups, k + 1), the same groups in the same order.
        generator: draws the bootstrap.

    Returns:
        the ranks at level 0 and at each level; and each pair whose order is shown at level 0, and the
        opposite order at a level: who was better, who is then, and the place of the first, from 1.
    """
    names = list(values)
    pairs = list(combinations(range(len(names)), 2))
    means = np.array([values[name].mean(axis=0) for name in names])
    better = np.zeros((len(names), *means.shape[1:], len(names)), dtype=np.bool_)
    if pairs:
        table = np.stack([values[names[one]] - values[names[other]] for one, other in pairs], axis=1)
        sign = _shown(table, generator)
        for number, (one, other) in enumerate(pairs):
            better[one, :, other], better[other, :, one] = sign[number] > 0, sign[number] < 0
    ranks = [
        {
            name: Rank(
                1 + int((means[:, level] > means[at, level]).sum()),
                1 + int(better[:, level, at].sum()),
                len(names) - int(better[at, level].sum()),
            )
            for at, name in enumerate(names)
        }
        for level in range(means.shape[1])
    ]
    changes = [
        (names[one], names[other], int(later[0]) + 1)
        for one in range(len(names))
        for other in range(len(names))
        if better[one, 0, other] and (later := np.flatnonzero(better[other, 1:, one])).size
    ]
    return ranks, changes


def _shown(table: Floats, generator: np.random.Generator) -> Floats:
    """Return the sign of each mean of a table (groups, pairs, levels) that is shown, else 0."""
    groups, shape = len(table), table.shape[1:]
    if groups < LEAST_GROUPS:
        return np.zeros(shape)
    flat = table.reshape(groups, -1)
    mean = flat.mean(axis=0)
    error = flat.std(axis=0, ddof=1) / np.sqrt(groups)
    varies = error > 0.0
    if not varies.any():
        return np.asarray(np.sign(mean).reshape(shape))
    # As weights of the groups, so that no drawn sample is held as a whole.
    weights = generator.multinomial(groups, np.full(groups, 1.0 / groups), size=DRAWS)
    drawn = weights @ flat[:, varies] / groups
    spread = np.sqrt(np.maximum(weights @ flat[:, varies] ** 2 / groups - drawn**2, 0.0) / (groups - 1))
    # A sample in which all groups agree says nothing of the spread.
    spread = np.where(spread > 0.0, spread, np.inf)
    most = np.abs((drawn - mean[varies]) / spread).max(axis=1)
    bound = float(np.quantile(most, CONFIDENCE))
    shown = np.where(varies, np.abs(mean) > bound * error, mean != 0.0)
    return np.asarray((np.sign(mean) * shown).reshape(shape))
