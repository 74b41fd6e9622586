"""The metrics of an edit in CLIP's space, on plain vectors: cosines and the directional similarity."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faultline_core.errors import NumericalFailure

Vectors = NDArray[np.float64]

_VANISHING = 1e-9


def unit(vectors: ArrayLike) -> Vectors:
    """Scale vectors (..., d) to length 1.

    Raises:
        NumericalFailure: a vector is zero or not finite.
    """
    # float64, as the directional similarity subtracts unit vectors that are nearly equal.
    values = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    # A service that answers zeros or NaN must fail here, and not score 0 as a poor edit would.
    if not np.all(np.isfinite(values)) or np.any(lengths < _VANISHING):
        raise NumericalFailure("an embedding is zero or not finite")
    return np.asarray(values / lengths)


def cosine(first: ArrayLike, second: ArrayLike) -> Vectors:
    """Cosine of vectors (..., d) with vectors (..., d), pair by pair, in [-1, 1]."""
    # Rounding takes the cosine of a vector with itself a little past 1, which thresholds must not see.
    products = np.sum(unit(first) * unit(second), axis=-1)
    return np.asarray(np.clip(products, -1.0, 1.0))


def directional_similarity(
    image: ArrayLike, edited_image: ArrayLike, text: ArrayLike, edited_text: ArrayLike
) -> Vectors:
    """Compare the change of pictures (..., d) with the change of captions (..., d) (LANCE, eq. 2).

    The sign: this is cos(E(x') - E(x), E(t') - E(t)), so 1 means that the picture changed just as the
    caption did; the paper's φ is 1 minus it, while its threshold and its code keep large cosines.
    Where picture or caption did not change there is no direction, and the answer is 0.
    """
    pictures = unit(edited_image) - unit(image)
    captions = unit(edited_text) - unit(text)
    lengths = np.linalg.norm(pictures, axis=-1) * np.linalg.norm(captions, axis=-1)
    products = np.sum(pictures * captions, axis=-1)
    # An identity edit has no direction; 0 / 0 would be NaN, which no response can carry.
    moved = lengths > _VANISHING
    return np.asarray(np.clip(np.where(moved, products / np.where(moved, lengths, 1.0), 0.0), -1.0, 1.0))


def pairwise_l1(vectors: ArrayLike, others: ArrayLike) -> Vectors:
    """L1 distances (n, m) between vectors (n, d) and (m, d): what LANCE clusters edited words by."""
    first, second = np.asarray(vectors, dtype=np.float64), np.asarray(others, dtype=np.float64)
    return np.asarray(np.abs(first[:, None, :] - second[None, :, :]).sum(axis=-1))


def cosines(given: ArrayLike, whose: str) -> Vectors:
    """Read similarities, of any shape.

    Raises:
        NumericalFailure: one is not finite or no cosine.
    """
    values = np.asarray(given, dtype=np.float64)
    # Half precision rounds a cosine of 1 up.
    if not np.all(np.isfinite(values)) or np.any(np.abs(values) > 1.001):
        raise NumericalFailure(f"a similarity of {whose} is not finite or no cosine")
    return values
