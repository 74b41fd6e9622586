"""Which images of an adaptive plan get every level, and on which half of them a claim is tested."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.stress_test.operations import least_lost

Share = Literal["full", "screened", "tested"]
"""A screened image with every level, a screened one that is bisected, or one on which claims are tested."""

FULL_SHARE = 0.1
FEW = 2.0
"""Of fewer than 200 independent images, more than a tenth get every level: the root of two over their number.

With ten of 96, intervals of an operation of which four in ten images come back covered 0.92.
"""


def full_share(groups: int) -> float:
    """Return the share of so many groups of images that gets every level: at most the screened half."""
    return min(0.5, max(FULL_SHARE, math.sqrt(FEW / max(1, groups))))


def share_of(generator: np.random.Generator, full: float) -> Share:
    """Draw what becomes of a group of images; the first half is screened, and ``full`` is a part of it."""
    drawn = float(generator.random())
    return "full" if drawn < full else "screened" if drawn < 0.5 else "tested"


def claimed_level(
    levels: Sequence[int],
    losses: Mapping[int, Sequence[float] | Floats],
    loss: float,
    tests: int,
    least_loss: float = 0.0,
) -> int:
    """Return the level of a claim: the easiest at which the screened half loses enough, else the costliest.

    Of levels that cost the same, the last. Enough is the stated loss, by so many groups that the other half
    would likely show it.

    Args:
        levels: those of the operation, the easiest first.
        losses: the loss of each screened group by level (groups,).
        loss: the stated loss.
        tests: the tests over which is corrected.
        least_loss: the loss that must be exceeded.
    """
    for level in levels:
        values = np.asarray(losses[level])
        lost = float((values > 0.0).sum())
        # One standard deviation of a count below it.
        if (
            values.size
            and values.mean() >= loss
            and lost - math.sqrt(lost) >= least_lost(tests, least_loss, values.size)
        ):
            return level
    means = [float(np.mean(losses[level])) if len(losses[level]) else 0.0 for level in levels]
    return max(zip(means, levels, strict=True))[1]
