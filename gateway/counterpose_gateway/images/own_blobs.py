"""The store as a caller sees it who names a blob: blobs of other tenants are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpose_core.blobs import BlobStore, no_blob

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterpose_gateway.ledger.blobs import Blobs


class OwnBlobs:
    """Reads the blobs that a tenant holds.

    png = png_of(ref, OwnBlobs(store, ledger.blobs), ledger.datasets)
    """

    def __init__(self, store: BlobStore, blobs: Blobs) -> None:
        self._store, self._blobs = store, blobs

    def get(self, ref: str, before: Callable[[bytes], object] | None = None) -> bytes:
        """Return the bytes named ``ref``; ``before`` as `BlobStore.get` has it.

        Raises:
            ArtifactMissing: nothing is stored under it, or it is another tenant's.
            ArtifactCorrupt: the stored bytes no longer match the digest.
        """
        if not self._blobs.holds(ref):
            raise no_blob(ref)
        return self._store.get(ref, before)

    def recall(self, kind: str, key: str) -> str | None:
        """Return the blob remembered for ``key``, or None."""
        return self._store.recall(kind, key)
