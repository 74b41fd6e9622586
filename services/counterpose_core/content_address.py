"""Where the store keeps a blob; a file of its own, as the SDK must not import the store's codecs."""

from __future__ import annotations

import re

_IN_TEXT = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def blob_name(ref: str) -> str:
    """Return the path below the store's root of the bytes with this SHA-256 digest."""
    return f"blobs/{ref[:2]}/{ref}"


def digests_in_bytes(content: bytes) -> set[str]:
    """Return the digests in a stored list: JSON, as images are not."""
    if content[:1] not in (b"[", b"{"):
        return set()
    return {found.decode() for found in _IN_TEXT.findall(content)}
