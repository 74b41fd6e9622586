"""What a stress test can prove, said before it starts: from the pairs that each class can give."""

from __future__ import annotations

from collections.abc import Collection

import scipy

from counterpose_core.stress_test.screening import LEVEL, least_pairs

POWER = 0.75
"""The probability with which a loss is proven, where the smallest such loss is told."""

SHARE_KEPT = 0.5
"""The share of fresh images of which edit and placebo both pass the gate, before a run has measured it."""


def provable_hypotheses(pairs: Collection[int], most: int) -> int:
    """Return how many changes can be tested together, at most ``most``, and 1 where none can.

    As `screening.choose_hypotheses`, which drops changes that no number of right answers could prove.

    Args:
        pairs: the pairs of each class.
        most: the number that the budget allows, from 1.
    """
    best = max(pairs, default=0)
    return next((number for number in range(most, 1, -1) if best >= least_pairs(number)), 1)


def provable_share(
    pairs: int, hypotheses: int, *, level: float = LEVEL, power: float = POWER
) -> float | None:
    """Return the smallest share of images that a change must fool to be proven with probability ``power``.

    A change that fools k of n images, and leaves p(true class) of the others as it is, has the p-value 2**-k
    by sign flips; k is binomial. Smaller losses on more images need more pairs than this.

    Args:
        pairs: the pairs n of the class.
        hypotheses: the number of changes that are tested, from 1.
        level: the family-wise level.
        power: the probability, in (0, 1).

    Returns:
        The share in (0, 1), or None where even a change that fools every image cannot be proven.
    """
    needed = least_pairs(hypotheses, level)
    if pairs < needed:
        return None
    # P(Binomial(n, q) >= k) is the regularised incomplete beta function I_q(k, n - k + 1).
    return float(scipy.special.betaincinv(needed, pairs - needed + 1, power))
