"""How often a 95 % interval contains the truth: rare losses, few sources, near-duplicates, plain shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from counterpose_core.statistics.bootstrap import Floats, bootstrap_mean, proportion
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.types import Estimate

from .placebo_tests import contrast_of
from .world import Noise, draw_sources

_DRAWS = 1000
_FRESH = 200_000


def mean_change(
    n: int, edits: int, noise: Noise, replicates: int, generator: Generator, *, block: int = 1
) -> tuple[Estimate, float]:
    """Coverage of the mean change of p(true class) over n sources with a kept edit (D6), or blocks (D10).

    Returns:
        How often the interval contains the truth, and its mean width.
    """
    truth = float(draw_sources(_FRESH // edits, edits, generator, noise=noise).changes[0].mean())
    figures = []
    for _ in range(replicates):
        change, groups = draw_sources((2 * n + 8) * block, edits, generator, noise=noise, block=block).changes
        values = by_group(change, groups)[:n]
        figures.append(bounded_mean(values, generator, draws=_DRAWS))
    return _held(figures, truth)


def beyond_placebo(
    n: int, edits: int, noise: Noise, replicates: int, generator: Generator, *, block: int = 1
) -> tuple[Estimate, float]:
    """Coverage of the loss beyond the own placebo, over n planned sources, 40 % of which an edit harms."""
    fresh = contrast_of(draw_sources(_FRESH // 20, edits, generator, noise=noise, harm=3.0, hit=0.4))
    assert fresh is not None
    figures = []
    for _ in range(replicates):
        drawn = draw_sources(n, edits, generator, noise=noise, harm=3.0, hit=0.4, block=block)
        found = contrast_of(drawn, grouped=block > 1)
        if found is not None:
            figures.append(found.estimate(generator, draws=_DRAWS))
    return _held(figures, fresh.mean)


def plain_share(n: int, rate: float, replicates: int, generator: Generator) -> tuple[Estimate, float]:
    """Coverage of the share of right answers to n images (D13)."""
    hits = generator.binomial(n, rate, size=replicates)
    return _held([proportion(int(each), n) for each in hits], rate)


def bootstrapped_change(
    n: int, edits: int, noise: Noise, replicates: int, generator: Generator
) -> tuple[Estimate, float]:
    """The same as `mean_change` by the bootstrap at any n: what the betting interval replaces."""
    truth = float(draw_sources(_FRESH // edits, edits, generator, noise=noise).changes[0].mean())
    figures = []
    for _ in range(replicates):
        change, _ = draw_sources(2 * n + 8, edits, generator, noise=noise).changes
        figures.append(bootstrap_mean(change[:n].tolist(), generator, draws=_DRAWS))
    return _held(figures, truth)


def by_group(values: Floats, groups: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    """Return the mean of each group (g,), the unit of an interval."""
    _, places = np.unique(np.asarray(groups), return_inverse=True)
    return np.asarray(np.bincount(places, weights=values) / np.bincount(places))


def _held(figures: Sequence[Estimate], truth: float) -> tuple[Estimate, float]:
    ends = np.array([(figure.low, figure.high) for figure in figures], dtype=np.float64)
    held = (ends[:, 0] - 1e-12 <= truth) & (truth <= ends[:, 1] + 1e-12)
    return proportion(int(held.sum()), len(figures)), float((ends[:, 1] - ends[:, 0]).mean())
