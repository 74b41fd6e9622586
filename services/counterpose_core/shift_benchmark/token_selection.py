"""Selection of a token's interpolation weight by comparing its images with real ones in CLIP's space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

_EQUAL = 1e-5
"""Mean cosines this close differ only by the rounding of float32."""


def least_weight(weights: Sequence[float], scores: ArrayLike) -> int:
    """Return the index of the smallest weight within one standard error of the best.

    If there is nothing to learn, training adds only noise, so of equally good weights the one nearest to the
    initialiser is chosen, as the smallest tree is (Breiman et al. 1984, section 3.4.3).

    Args:
        weights: the interpolation weights.
        scores: cosines (weights, n) of images with the same n prompts and seeds, so that a weight is compared
            with the best one image by image.
    """
    table = np.asarray(scores, dtype=np.float64)
    best = table[int(np.argmax(table.mean(axis=1)))]
    short = best - table
    # One image gives no standard error; then only equal scores are as good.
    errors = short.std(axis=1, ddof=1) / np.sqrt(table.shape[1]) if table.shape[1] > 1 else 0.0
    good: list[int] = np.flatnonzero(short.mean(axis=1) <= errors + _EQUAL).tolist()
    return min(good, key=lambda place: weights[place])
