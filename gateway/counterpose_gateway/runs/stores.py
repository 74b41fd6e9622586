"""The stores of a run's images as methods see them, and the check of images that services stored."""

from __future__ import annotations

import asyncio
from typing import Protocol

from counterpose_core.errors import (
    ArtifactMissing,
    BadBackendOutput,
    ImageTooLarge,
    ImageUndecodable,
    UnsupportedMedia,
)
from counterpose_core.images.codecs import decode_image


class Store(Protocol):
    """Stores images; `counterpose_core.blobs.BlobStore` is one.

    decode_image(store.get(result.image))
    """

    def get(self, ref: str) -> bytes:
        """Return the verified bytes named ``ref``."""


class IndexStore(Store, Protocol):
    """Stores images and indices, and the index of each input; `counterpose_core.blobs.BlobStore` is one.

    store.remember("image-index", key, store.put(index.to_bytes()))
    """

    def put(self, data: bytes) -> str:
        """Store ``data`` durably and return its digest."""

    def remember(self, kind: str, key: str, ref: str, *, of: str = "") -> None:
        """Note that the inputs hashed to ``key``, which are made of ``of``, gave the blob ``ref``."""

    def recall(self, kind: str, key: str, *, of: str = "") -> str | None:
        """Return the blob noted for ``key``, or None if it is missing."""


async def check_image(ref: str, store: Store) -> None:
    """Check a generated image before it is measured.

    Raises:
        BadBackendOutput: the image was never stored, cannot be read, or is of one colour.
    """
    await asyncio.to_thread(_check_image, ref, store)


def _check_image(ref: str, store: Store) -> None:
    try:
        pixels = decode_image(store.get(ref))
    except (ArtifactMissing, ImageTooLarge, ImageUndecodable, UnsupportedMedia) as error:
        # The original code would blame the user's image, and the call would never be retried.
        raise BadBackendOutput(f"the editor named the image {ref!r}: {error.detail}") from error
    # A safety checker's black frame would be scored as a classifier's failure.
    if int(pixels.max()) == int(pixels.min()):
        raise BadBackendOutput(f"the editor returned a blank image, {ref!r}")
