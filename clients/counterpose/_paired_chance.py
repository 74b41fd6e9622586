"""What chance does to differences of pairs, without numpy, which the SDK does not need otherwise.

The unit is the source image: its differences are averaged first. Every draw is of the caller's generator.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from counterpose_core.types import Estimate

DRAWS = 2000
FLIPS = 4000
_MOST_EXACT = 12
_STUDENT = {1: 12.706204736174694, 2: 4.302652729749462, 3: 3.182446305283708}
"""Student's 97.5 % quantiles of few degrees of freedom, where the expansion is up to 24 % too small."""
_ROUNDING = 1e-12
_NORMAL = 1.959963984540054


def mean_difference(
    values: Sequence[float], generator: random.Random, bounds: tuple[float, float]
) -> Estimate:
    """Return the mean of one value for each source, with a 95 % interval.

    The interval is the hull of the bootstrap's widened percentiles and Student's t. If all values agree, it
    is for as many other sources as n cannot rule out (the exact binomial bound), each at ``bounds``, as
    `counterpose_core.statistics.bootstrap` has it.

    Args:
        values: one for each source.
        generator: draws the bootstrap.
        bounds: the least and the largest possible value, not those that were seen.
    """
    n = len(values)
    if n == 0:
        return Estimate(estimate=None, low=None, high=None, n=0)
    mean = math.fsum(values) / n
    if agree(values):
        share = 1 - 0.025 ** (1 / n)
        low, high = mean - share * (mean - bounds[0]), mean + share * (bounds[1] - mean)
        return Estimate(estimate=mean, low=low, high=high, n=n)
    drawn = sorted(math.fsum(generator.choices(values, k=n)) / n for _ in range(DRAWS))
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    student = _student(n - 1)
    # Tails of resampling are too short for few sources (Hesterberg 2015, section 5.3.3).
    tail = round(DRAWS * 0.5 * math.erfc(math.sqrt(n / (n - 1) / 2) * student))
    low = max(bounds[0], min(drawn[tail], mean - student * deviation))
    high = min(bounds[1], max(drawn[-1 - tail], mean + student * deviation))
    return Estimate(estimate=mean, low=low, high=high, n=n)


def agree(values: Sequence[float]) -> bool:
    """Return whether all values are equal, but for rounding; there must be one."""
    return max(values) - min(values) <= _ROUNDING


def _student(freedom: int) -> float:
    """Return Student's 97.5 % quantile; beyond the table by Hill's expansion, whose error is below 0.3 %."""
    if freedom in _STUDENT:
        return _STUDENT[freedom]
    z, v = _NORMAL, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def sign_flip_p(values: Sequence[float], generator: random.Random) -> float:
    """Return the two-sided p of "the differences are as often one way as the other"; never 0.

    Of sources with a difference of one unit each it is McNemar's exact test. It is exact up to 12 sources
    that differ, and by random signs beyond.

    Args:
        values: one difference for each source.
        generator: draws the signs.
    """
    differing = [value for value in values if value]
    if not differing:
        return 1.0
    least = abs(math.fsum(differing)) - 1e-9 * sum(map(abs, differing))
    if len(differing) <= _MOST_EXACT:
        sums = [
            math.fsum(sign * value for sign, value in zip(signs, differing, strict=True))
            for signs in itertools.product((1, -1), repeat=len(differing))
        ]
        return sum(abs(total) >= least for total in sums) / len(sums)
    reached = sum(
        abs(math.fsum(value if generator.random() < 0.5 else -value for value in differing)) >= least
        for _ in range(FLIPS)
    )
    return (reached + 1) / (FLIPS + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the family-wise error rate, in their order (Holm 1979)."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
