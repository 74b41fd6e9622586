"""A store in memory and small images to put in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from counterpose_core.errors import ArtifactMissing
from counterpose_core.images.codecs import encode_raw
from counterpose_core.images.packing import PackedImage, unpack


class FakeStore:
    """Blobs in a dict, with the methods of `counterpose_core.blobs.BlobStore`."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.noted: dict[tuple[str, str], str] = {}

    def put(self, data: bytes) -> str:
        """Keep ``data`` under its digest."""
        ref = hashlib.sha256(data).hexdigest()
        self.blobs[ref] = data
        return ref

    def put_packed(self, image: PackedImage) -> None:
        """Keep the raw form."""
        self.blobs[image.ref] = unpack(image.data) or b""

    def get(self, ref: str, before: Callable[[bytes], object] | None = None) -> bytes:
        """Return the bytes of ``ref``."""
        if ref not in self.blobs:
            raise ArtifactMissing(f"no artifact is stored as {ref!r}")
        if before is not None:
            before(self.blobs[ref])
        return self.blobs[ref]

    def exists(self, ref: str) -> bool:
        """Return whether ``ref`` is stored."""
        return ref in self.blobs

    def remember(self, kind: str, key: str, ref: str, *, of: str = "") -> None:
        """Store ``ref`` under the cache key ``key``."""
        self.noted[kind, key] = ref

    def recall(self, kind: str, key: str, *, of: str = "") -> str | None:
        """Return the reference under ``key``, if it is still stored."""
        ref = self.noted.get((kind, key))
        return ref if ref in self.blobs else None


def image(*names: object, size: int = 8) -> bytes:
    """An image in our raw format, determined by its names alone."""
    seed = int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:8])
    pixels = np.random.default_rng(seed).integers(0, 256, size=(size, size, 3), dtype=np.uint8)
    return encode_raw(pixels)


def blank_image(size: int = 8) -> bytes:
    """An image of one colour, as from a broken editor."""
    return encode_raw(np.zeros((size, size, 3), dtype=np.uint8))
