"""When two answers are the same, as docs/design/determinism.md defines it; bytes may differ."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from counterpose_core.blobs import BlobStore
from counterpose_core.images.codecs import decode_image

LEVELS = 1
"""The largest difference between two images that are the same, in levels of 255."""

FLOAT32 = 1e-5
"""The largest difference between two float32 numbers that are the same."""

FITS = 1e-6
"""The largest relative difference between two results of one iterative fit that are the same."""

RECONSTRUCTION_DB = 0.1
"""The largest difference between the reconstructions of two runs of one optimisation, in dB of PSNR."""

Levels = npt.NDArray[np.int16]


def stored_images(store: BlobStore, refs: Iterable[str]) -> Levels:
    """Read images (N, H, W, 3) in a signed type, so that they can be subtracted."""
    return np.stack([decode_image(store.get(ref)).astype(np.int16) for ref in refs])


def levels_apart(first: npt.ArrayLike, second: npt.ArrayLike) -> int:
    """Return the largest difference of images of one shape, in levels."""
    one, other = np.asarray(first, dtype=np.int16), np.asarray(second, dtype=np.int16)
    assert one.shape == other.shape, f"images of the shapes {one.shape} and {other.shape} do not compare"
    return int(np.abs(one - other).max())
