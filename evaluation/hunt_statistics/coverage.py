"""How often the interval of a failure rate holds it, under three sampling rules and however stopped."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from counterpose_core.bug_hunt.sampling import FixedSampling, InverseSampling, Sampling, SequentialSampling
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate

Counts = NDArray[np.int64]

MOST = 20_000
FIXED = 500
"""A budget in which ten failures in a thousand are seen a few times."""
_FIRST_LOOK, _LOOKS = 8, 60


def own_stop(rule: Sampling, rate: float, replicates: int, generator: Generator) -> list[Estimate]:
    """Return the estimate of each drawing that ended as its rule says."""
    return [
        rule.rate(int(failures), int(images))
        for failures, images in zip(*_ends(rule, rate, replicates, generator), strict=True)
    ]


def whoever_looks(rule: Sampling, rate: float, replicates: int, generator: Generator) -> Estimate:
    """Return how often the interval holds the truth at every look, and at the rule's own end.

    The figure for a user who may look whenever he likes and stops where the interval is wrong. The rule's
    end is one of the looks.
    """
    looks = _looks(rule.most)
    seen = _looked_at(looks, rate, replicates, generator)
    rate_at = cache(lambda failures, images: _holds(rule.rate(failures, images, ended=False), rate))
    ended = cache(lambda failures, images: _holds(rule.rate(failures, images), rate))
    held = 0
    for counts in seen:
        good = True
        for failures, images in zip(map(int, counts), looks, strict=True):
            over = rule.is_decided(failures, images)
            good = (ended if over else rate_at)(failures, images)
            if over or not good:
                break
        held += good
    return proportion(held, replicates)


def careless(rate: float, replicates: int, generator: Generator) -> Estimate:
    """Return the same of Clopper-Pearson's interval, read at every look as if it had been the only one."""
    looks = _looks(FIXED)
    seen = _looked_at(looks, rate, replicates, generator)
    holds = cache(lambda failures, images: _holds(FixedSampling(images=images).rate(failures, images), rate))
    held = sum(
        all(holds(int(failures), images) for failures, images in zip(counts, looks, strict=True))
        for counts in seen
    )
    return proportion(held, replicates)


def coverage(found: list[Estimate], rate: float) -> Estimate:
    """Return how often the interval holds the rate."""
    return proportion(sum(_holds(each, rate) for each in found), len(found))


def _holds(found: Estimate, rate: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low - 1e-12 <= rate <= found.high + 1e-12


def _ends(rule: Sampling, rate: float, replicates: int, generator: Generator) -> tuple[Counts, Counts]:
    """Failures and images at the rule's own end."""
    if isinstance(rule, FixedSampling):
        return generator.binomial(rule.images, rate, replicates), np.full(replicates, rule.images)
    if isinstance(rule, InverseSampling):
        places = generator.geometric(rate, (replicates, rule.failures)).cumsum(axis=1)
        images = np.minimum(places[:, -1], rule.most_images)
        return np.asarray((places <= rule.most_images).sum(axis=1)), images
    looks = _looks(rule.most_images)
    seen = _looked_at(looks, rate, replicates, generator)
    is_decided: Callable[[int, int], bool] = cache(rule.is_decided)
    last = [
        next(place for place, images in enumerate(looks) if is_decided(int(counts[place]), images))
        for counts in seen
    ]
    return seen[np.arange(replicates), last], np.array(looks)[last]


def _looks(most: int) -> list[int]:
    """The numbers of images at which somebody looks, further apart as there are more."""
    return sorted({*map(int, np.geomspace(_FIRST_LOOK, most, _LOOKS)), most})


def _looked_at(looks: list[int], rate: float, replicates: int, generator: Generator) -> Counts:
    """Failures at each look (replicates, looks)."""
    steps = np.diff([0, *looks])
    return np.asarray(generator.binomial(steps, rate, (replicates, len(looks))).cumsum(axis=1))


RULES: dict[str, Sampling] = {
    "fixed": FixedSampling(images=FIXED),
    "inverse": InverseSampling(failures=20, most_images=MOST),
    "inverse, small budget": InverseSampling(failures=20, most_images=FIXED),
    "sequential": SequentialSampling(threshold=0.02, most_images=MOST, least_failures=20),
}
RATES = (0.001, 0.01, 0.05, 0.2, 0.5)
