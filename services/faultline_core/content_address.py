"""Where the store keeps a blob; a file of its own, as the SDK must not import the store's codecs."""

from __future__ import annotations


def blob_name(ref: str) -> str:
    """Return the path below the store's root of the bytes with this SHA-256 digest."""
    return f"blobs/{ref[:2]}/{ref}"
