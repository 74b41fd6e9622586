"""The content-addressed store: bytes named by their digest, and a keyed cache of such names.

Beside these lies what can be computed again, under the key of its inputs: no row names it, and it may go.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel

from counterpose_core.blob_folders import Before, Folder, LocalFolder, RemoteFolder
from counterpose_core.content_address import blob_name, digests_in_bytes
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, DiskFailed, StorageFull
from counterpose_core.images.packing import PackedImage, unpack

_DIGEST = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or an exhausted quota."""

_failures: dict[str, str] = {}
"""What failed on the disk of a store, by its root, as long as this process lives."""

MADE_KIND = "made"
"""Notes of lists of what was made of a blob."""

DERIVED = "derived"
"""Folder of what can be computed again, each file named by kind and key."""

_DIGITS = 64

STALE_TEMPORARY_SECONDS = 3600.0


class Mark(NamedTuple):
    """A ledger that writes to a store, and the number of its last event."""

    ledger: str
    event: int


def digest(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: str) -> bool:
    """Return whether ``text`` is written like a SHA-256."""
    return _DIGEST.fullmatch(text) is not None


def _json_value(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{value!r} has no canonical JSON form")


def cache_key(**inputs: object) -> str:
    """Return the digest of the canonical JSON of ``inputs``, which must name every input of the result."""
    # NaN is refused: it is not equal to itself, but all NaN would share one key.
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_json_value)
    return digest(text.encode())


def no_blob(ref: str) -> ArtifactMissing:
    """Return the error of a blob that is not there, or not for whoever asks."""
    return ArtifactMissing(
        f"no artifact is stored under {ref!r}; check the digest, or run again what made it"
    )


class BlobStore:
    """Bytes under ``root``, a folder or an fsspec URL; safe for many processes at once."""

    def __init__(self, root: str) -> None:
        self.root = root
        filesystem, path = url_to_fs(root)
        local = isinstance(filesystem, LocalFileSystem)
        self._local = LocalFolder(Path(path)) if local else None
        self._folder: Folder = self._local or RemoteFolder(filesystem, path.rstrip("/"))

    def __repr__(self) -> str:
        return f"BlobStore({self.root!r})"

    @property
    def failure(self) -> str | None:
        """What failed on the disk as this process wrote to it; None if nothing did.

        After a failed fsync the system takes the pages for written, and the next one succeeds: only a
        process that starts anew, and finds what is there, may be believed again.
        """
        return _failures.get(self.root)

    def put(self, data: bytes) -> str:
        """Store ``data`` durably and return its digest; storing it again mends a corrupt copy.

        Raises:
            StorageFull: there is no room.
            DiskFailed: the disk failed, now or before.
        """
        ref = digest(data)
        name = blob_name(ref)
        # Reading costs far less than a synced write, and most calls put bytes that are already stored.
        found = self._folder.read(name)
        same = found is not None and (found == data or unpack(found) == data)
        if not (same and self._used(name)):
            self._write(name, found if same and found is not None else data)
        return ref

    def put_packed(self, image: PackedImage) -> None:
        """Store ``image`` durably, unless it is stored already, packed or raw.

        Raises:
            StorageFull: there is no room.
        """
        name = blob_name(image.ref)
        found = self._folder.read(name)
        same = found is not None and (found == image.data or digest(found) == image.ref)
        if not (same and self._used(name)):
            self._write(name, found if same and found is not None else image.data)

    def get(self, ref: str, before: Before | None = None) -> bytes:
        """Return the bytes named ``ref``; those of a packed image are its raw form.

        ``before`` is given the first bytes as they are stored before the rest is read, and may wait for room.

        Raises:
            ArtifactMissing: nothing is stored under ``ref``.
            ArtifactCorrupt: the stored bytes no longer match the digest.
        """
        data = self._folder.read(blob_name(ref), before) if _DIGEST.fullmatch(ref) else None
        if data is None:
            raise no_blob(ref)
        # The digest is checked at every read, so that corrupt data never reaches a report.
        if digest(data) == ref:
            return data
        raw = unpack(data)
        if raw is None or digest(raw) != ref:
            raise ArtifactCorrupt(
                f"the bytes stored under {ref!r} no longer match this digest; "
                "restore them or run again what made them"
            )
        return raw

    def exists(self, ref: str) -> bool:
        """Return True if something is stored under ``ref``; only `get` verifies the bytes."""
        return bool(_DIGEST.fullmatch(ref)) and self._folder.exists(blob_name(ref))

    def remember(self, kind: str, key: str, ref: str, *, of: str = "") -> None:
        """Record that the inputs with hash ``key`` gave the blob ``ref``; ``kind`` names the computation.

        ``of``: the digest of what it was computed of, such as an image, with which the record goes.
        """
        if not _DIGEST.fullmatch(ref):
            raise ValueError(f"{ref!r} is not a digest of 64 hexadecimal digits")
        self._write(_cache_name(kind, key, of), ref.encode())

    def recall(self, kind: str, key: str, *, of: str = "") -> str | None:
        """Return the blob recorded for ``key``, or None if the record or the blob is missing."""
        noted = self._folder.read(_cache_name(kind, key, of))
        ref = noted.decode("ascii", errors="replace") if noted is not None else ""
        return ref if self.exists(ref) else None

    def keep(self, kind: str, key: str, data: bytes, *, of: str = "") -> None:
        """Keep what the inputs with hash ``key`` gave, as long as the budget allows.

        For large intermediates that can be computed again: nothing but `find` may need them. ``of``: as for
        `remember`.

        Raises:
            StorageFull: there is no room.
        """
        self._write(_derived_name(kind, key, of), digest(data).encode() + data)

    def find(self, kind: str, key: str, *, of: str = "") -> bytes | None:
        """Return what was kept for ``key``; None if it was not, was evicted meanwhile, or is damaged."""
        name = _derived_name(kind, key, of)
        kept = self._folder.read(name)
        if kept is None or kept[:_DIGITS] != digest(kept[_DIGITS:]).encode():
            return None
        if self._local is not None:
            self._local.touch(name)
        return kept[_DIGITS:]

    def note_made(self, refs: Sequence[str], *, of: str) -> None:
        """Record that these blobs were made of the blob ``of``: they go with it, unless a row names them."""
        listed = json.dumps(sorted(refs)).encode()
        self.remember(MADE_KIND, digest(listed), self.put(listed), of=of)

    def erase(self, ref: str, *, unused_since: float) -> set[str] | None:
        """Remove what is stored under ``ref``, unless it was put since, and all that was computed of it.

        Returns the blobs that were named by nothing else, as far as that shows here, or None if it was put
        since ``unused_since``, in seconds since the epoch. No row may name it: who puts it meanwhile finds it
        gone, and writes it again.
        """
        name = blob_name(ref)
        listed = digests_in_bytes(self._folder.read(name) or b"")
        if not self._folder.remove(name, unused_since):
            return None
        for note in self._folder.beginning_with("cache", ref[:2], ref):
            listed.add((self._folder.read(note) or b"").decode("ascii", errors="replace"))
            self._folder.remove(note, math.inf)
        for kept in self._folder.beginning_with(DERIVED, ref[:2], ref):
            self._folder.remove(kept, math.inf)
        return {found for found in listed if is_digest(found)} - {ref}

    @property
    def derived(self) -> Path | None:
        """The folder of what is kept, or None if the store is not on a local disk."""
        return None if self._local is None else self._local.root / DERIVED

    def require_room(self, least_free_bytes: int) -> None:
        """Check that a store on a local disk has so many bytes free; other stores are not asked.

        Raises:
            StorageFull: it has fewer.
        """
        if self._local is not None and (free := self._local.free_bytes()) < least_free_bytes:
            raise StorageFull(
                f"the store's disk has {free} free bytes, fewer than COUNTERPOSE_LEAST_FREE_BYTES = "
                f"{least_free_bytes}; free some space, then retry"
            )

    def sweep(self, older_than_seconds: float = STALE_TEMPORARY_SECONDS) -> int:
        """Remove the incomplete files of killed writers, and return their number."""
        return 0 if self._local is None else self._local.sweep(older_than_seconds)

    @property
    def has_blobs(self) -> bool:
        """Whether the store has blobs."""
        return self._folder.has_files("blobs")

    def marks(self) -> list[Mark]:
        """Return the marks of the ledgers that write here."""
        named = (name.split("/") for name in self._folder.beginning_with("ledgers", "events", ""))
        return [Mark(ledger, int(event)) for _, ledger, _, event in named]

    def mark(self, mark: Mark, *, instead_of: Mark | None = None) -> None:
        """Leave a ledger's mark; the one that it replaces goes after that.

        Each is a file of its own: of several writers, none lowers what another one has written.
        """
        self._write(_mark_name(mark), b"")
        if instead_of is not None and instead_of != mark:
            self.unmark(instead_of)

    def unmark(self, mark: Mark) -> None:
        """Remove a mark."""
        self._folder.remove(_mark_name(mark), math.inf)

    def _used(self, name: str) -> bool:
        with self._translated(0):
            return self._folder.use(name)

    def _write(self, name: str, data: bytes) -> None:
        with self._translated(len(data)):
            self._folder.write(name, data)

    @contextlib.contextmanager
    def _translated(self, size: int) -> Iterator[None]:
        if self.failure is not None:
            raise DiskFailed(self.failure)
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                raise StorageFull(
                    f"no room for {size} bytes in {self.root!r}; free some space, then retry"
                ) from error
            if error.errno != errno.EIO:
                raise
            found = f"the disk of the store {self.root!r} failed: {error.strerror}; check it, then start anew"
            _failures[self.root] = found
            raise DiskFailed(found) from error


def _mark_name(mark: Mark) -> str:
    return f"ledgers/{mark.ledger}/events/{mark.event}"


def _cache_name(kind: str, key: str, of: str = "") -> str:
    return f"cache/{_keyed(kind, key, of)}"


def _derived_name(kind: str, key: str, of: str = "") -> str:
    return f"{DERIVED}/{_keyed(kind, key, of)}"


def _keyed(kind: str, key: str, of: str) -> str:
    if not _KIND.fullmatch(kind) or not _DIGEST.fullmatch(key) or (of and not _DIGEST.fullmatch(of)):
        raise ValueError(f"a cache entry cannot be named {kind!r}, {key!r}, {of!r}; give a word and digests")
    return f"{kind}/{of[:2]}/{of}.{key}" if of else f"{kind}/{key[:2]}/{key}"
