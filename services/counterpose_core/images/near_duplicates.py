"""Images that are nearly the same: pairs whose CLIP features are close, and the groups that pairs make."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from counterpose_core.images.clip_metrics import unit

_BLOCK = 1024

Pair = tuple[int, int]


def near_pairs(features: ArrayLike, least: float) -> list[Pair]:
    """Return the indices of the pairs of images whose features have a cosine of at least ``least``.

    Args:
        features: CLIP features (n, d), not zero.
        least: the lowest cosine, from -1 to 1.

    Raises:
        NumericalFailure: a vector is zero or not finite.
    """
    vectors = unit(features)
    pairs: list[Pair] = []
    for start in range(0, len(vectors), _BLOCK):
        close = vectors[start : start + _BLOCK] @ vectors[start:].T >= least
        rows, columns = np.nonzero(np.triu(close, k=1))
        pairs += zip((rows + start).tolist(), (columns + start).tolist(), strict=True)
    return pairs


def joined(n: int, pairs: Iterable[Pair]) -> list[int]:
    """Return the number of the group (n,) of each image, where paired images share one.

    A chain of pairs is one group, as of a slow pan: its ends need not be alike.
    """
    if not (listed := list(pairs)):
        # As of most datasets; each request for a run asks.
        return list(range(n))
    found: list[int] = joined_by(n, np.array(listed, dtype=np.intp).reshape(-1, 2)).tolist()
    return found


def joined_by(n: int, ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the same as `joined` (n,) from an array of pairs (m, 2)."""
    links = scipy.sparse.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    _, labels = scipy.sparse.csgraph.connected_components(links, directed=False)
    return np.asarray(labels, dtype=np.intp)
