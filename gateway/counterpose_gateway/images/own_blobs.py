"""The store as a caller sees it who names a blob: blobs of other tenants are not there."""

from __future__ import annotations

from typing import Protocol

from counterpose_core.blobs import BlobStore, no_blob


class Holdings(Protocol):
    """Knows which blobs a tenant's objects name; `counterpose_gateway.ledger.Ledger` is one.

    may_read = holdings.holds(ref)
    """

    def holds(self, ref: str) -> bool:
        """Return whether an object of the tenant names the blob."""
        ...


class OwnBlobs:
    """Reads the blobs that a tenant holds.

    png = png_of(ref, OwnBlobs(store, ledger), ledger)
    """

    def __init__(self, store: BlobStore, holdings: Holdings) -> None:
        self._store, self._holdings = store, holdings

    def get(self, ref: str) -> bytes:
        """Return the bytes named ``ref``.

        Raises:
            ArtifactMissing: nothing is stored under it, or it is another tenant's.
            ArtifactCorrupt: the stored bytes no longer match the digest.
        """
        if not self._holdings.holds(ref):
            raise no_blob(ref)
        return self._store.get(ref)

    def recall(self, kind: str, key: str) -> str | None:
        """Return the blob remembered for ``key``, or None."""
        return self._store.recall(kind, key)
