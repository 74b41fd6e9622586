"""When two answers are the same: the promise of docs/design/determinism.md, which bytes are no part of."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from faultline_core.blobs import BlobStore
from faultline_core.images.codecs import decode_image

LEVELS = 1
"""Most levels, of 255, between two images that are the same."""

FLOAT32 = 1e-5
"""Most between two float32 numbers that are the same."""

RECONSTRUCTION_DB = 0.1
"""Most between what two runs of one optimisation reach, as the ratio of a reconstruction."""

Levels = npt.NDArray[np.int16]


def stored_images(store: BlobStore, refs: Iterable[str]) -> Levels:
    """Read images (N, H, W, 3), in a type in which they can be subtracted."""
    return np.stack([decode_image(store.get(ref)).astype(np.int16) for ref in refs])


def levels_apart(first: npt.ArrayLike, second: npt.ArrayLike) -> int:
    """Return the largest difference of images of one shape, in levels."""
    one, other = np.asarray(first, dtype=np.int16), np.asarray(second, dtype=np.int16)
    assert one.shape == other.shape, f"images of the shapes {one.shape} and {other.shape} do not compare"
    return int(np.abs(one - other).max())
