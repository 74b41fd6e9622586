"""Metrics of an edit in CLIP's embedding space: cosines and the directional similarity."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpose_core.errors import NumericalFailure

Vectors = NDArray[np.float64]

_VANISHING = 1e-9

_STILL = 1e-5
"""The least change of a unit vector that exceeds the rounding of float32."""


def unit(vectors: ArrayLike) -> Vectors:
    """Return vectors (..., d) scaled to length 1.

    Raises:
        NumericalFailure: a vector is zero or not finite.
    """
    # float64, as the directional similarity subtracts unit vectors that are nearly equal.
    values = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    # A service that returns zeros or NaN must fail here instead of scoring 0 like a poor edit.
    usable = np.isfinite(values).all(axis=-1) & (lengths[..., 0] >= _VANISHING)
    if not usable.all():
        first = int(np.flatnonzero(~np.atleast_1d(usable))[0])
        raise NumericalFailure(
            f"embedding {first} of {usable.size} is zero or not finite; check the encoder that returned it"
        )
    return np.asarray(values / lengths)


def cosine(first: ArrayLike, second: ArrayLike) -> Vectors:
    """Return the cosines (...), in [-1, 1], of pairs of vectors (..., d) and (..., d)."""
    # Rounding can make the cosine of a vector with itself slightly larger than 1.
    products = np.sum(unit(first) * unit(second), axis=-1)
    return np.asarray(np.clip(products, -1.0, 1.0))


def directional_similarity(
    image: ArrayLike, edited_image: ArrayLike, text: ArrayLike, edited_text: ArrayLike
) -> Vectors:
    """Compare the change of images with the change of captions (LANCE, eq. 2).

    The result is cos(E(x') - E(x), E(t') - E(t)), so 1 means that the image changed exactly as the caption
    did. The paper's φ is 1 minus this cosine, but its threshold and its code keep large cosines. If image or
    caption changed by no more than the rounding of float32, there is no direction and the result is 0.

    Args:
        image: embeddings of the original images (..., d).
        edited_image: embeddings of the edited images (..., d).
        text: embeddings of the original captions (..., d).
        edited_text: embeddings of the edited captions (..., d).

    Raises:
        NumericalFailure: an embedding is zero or not finite.
    """
    images = unit(edited_image) - unit(image)
    captions = unit(edited_text) - unit(text)
    ways = np.linalg.norm(images, axis=-1), np.linalg.norm(captions, axis=-1)
    lengths, products = ways[0] * ways[1], np.sum(images * captions, axis=-1)
    # An identity edit has no direction: rounding would give it any, and 0 / 0 is NaN, which no answer holds.
    moved = np.minimum(*ways) > _STILL
    return np.asarray(np.clip(np.where(moved, products / np.where(moved, lengths, 1.0), 0.0), -1.0, 1.0))


def cosines(given: ArrayLike, whose: str) -> Vectors:
    """Return similarities of any shape as float64 after checking that they are cosines.

    Raises:
        NumericalFailure: a similarity is not finite or not a cosine.
    """
    values = np.asarray(given, dtype=np.float64)
    # Half precision can round a cosine of 1 up.
    if not np.all(np.isfinite(values)) or np.any(np.abs(values) > 1.001):
        raise NumericalFailure(
            f"a similarity of {whose} is not a finite cosine; check the encoder that returned it"
        )
    return values
