"""The confirmation of a stress test: is a change that the screen chose harmful on images it did not use?

The unit is a pair of one fresh source image: its edit by the chosen words, and its placebo. A pair's loss is
p(true class) of the placebo less that of the edit. Nothing here depends on how the screen chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from faultline_core.statistics.p_values import holm, sign_flip_p
from faultline_core.stress_test.screening import LEAST_LOSS, LEVEL

LOOK_PAIRS = 4
"""The pairs after which a hopeless hypothesis is given up."""

FUTILE_LOSS = 0.15
"""A mean loss below this at the look is futile. Stopping for futility cannot raise the error rate."""

MOST_PAIRS = 25
"""More pairs add nothing to the proof of a loss that is worth a finding."""

MARGIN = 0.10
"""A change holds if the interval of its loss ends below this."""

_PSEUDO_PAIRS, _PRIOR_MEAN, _PRIOR_VARIANCE = 2, 0.25, 0.10
_LARGEST_BET = 0.9


@dataclass(frozen=True)
class ConfirmationTest:
    """The test of one hypothesis: ``p`` by sign flips (1 if stopped for futility), corrected by Holm."""

    n: int
    mean: float
    stopped: bool
    p: float
    p_adjusted: float

    @property
    def confirmed(self) -> bool:
        """Whether the loss is shown, and large enough to be worth a finding."""
        return self.p_adjusted <= LEVEL and self.mean >= LEAST_LOSS


def is_futile(losses: ArrayLike) -> bool:
    """Return whether a hypothesis with these losses at the look (n,) is given up; never before 4 pairs."""
    values = np.asarray(losses, dtype=np.float64)
    return values.size >= LOOK_PAIRS and float(values.mean()) < FUTILE_LOSS


def confirm(
    losses: Sequence[ArrayLike], stopped: Sequence[bool], generators: Sequence[np.random.Generator]
) -> list[ConfirmationTest]:
    """Test every hypothesis that was chosen, and correct over all of them, those given up included.

    Args:
        losses: the losses of each hypothesis's pairs (n,), in [-1, 1].
        stopped: whether it was given up at the look.
        generators: draws each hypothesis's sign flips above 14 pairs; up to 14 the test is exact.
    """
    columns = [np.asarray(each, dtype=np.float64) for each in losses]
    raw = [
        1.0 if given_up else sign_flip_p(column, generator)
        for column, given_up, generator in zip(columns, stopped, generators, strict=True)
    ]
    return [
        ConfirmationTest(column.size, float(column.mean()) if column.size else 0.0, given_up, p, adjusted)
        for column, given_up, p, adjusted in zip(columns, stopped, raw, holm(raw), strict=True)
    ]


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
