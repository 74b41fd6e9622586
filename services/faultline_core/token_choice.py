"""How much of what was learned a token keeps: its pictures held against real ones in CLIP's space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def least_share(shares: Sequence[float], scores: ArrayLike) -> int:
    """The place of the smallest share that is as good as the best, one standard error aside.

    ``scores`` (shares, n) are of the same n prompts and seeds, so that a share is compared with the best
    picture by picture. Learning is noise where there is nothing to learn: of equals the one nearest to the
    initialiser is taken, as of trees the smallest (Breiman et al. 1984, section 3.4.3).
    """
    table = np.asarray(scores, dtype=np.float64)
    best = table[int(np.argmax(table.mean(axis=1)))]
    short = best - table
    # Of one picture nothing is known of the error: then only equals are as good.
    errors = short.std(axis=1, ddof=1) / np.sqrt(table.shape[1]) if table.shape[1] > 1 else 0.0
    good: list[int] = np.flatnonzero(short.mean(axis=1) <= errors).tolist()
    return min(good, key=lambda place: shares[place])
