"""The content-addressed store: bytes named by their digest, and a keyed cache of such names.

Beside these lies what can be computed again, under the key of its inputs: no row names it, and it may go.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel

from faultline_core.content_address import blob_name
from faultline_core.errors import ArtifactCorrupt, ArtifactMissing, DiskFailed, StorageFull
from faultline_core.images.packing import PackedImage, unpack

_DIGEST = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or an exhausted quota."""

_failures: dict[str, str] = {}
"""What failed on the disk of a store, by its root, as long as this process lives."""

DERIVED = "derived"
"""Folder of what can be computed again, each file named by kind and key."""

PASSING = "passing"
"""Kind of the images that a caller only wants to be looked at."""

_DIGITS = 64

STALE_TEMPORARY_SECONDS = 3600.0


def digest(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _json_value(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{value!r} has no canonical JSON form")


def cache_key(**inputs: object) -> str:
    """Return the digest of the canonical JSON of ``inputs``, which must name every input of the result."""
    # NaN is refused: it is not equal to itself, but all NaN would share one key.
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_json_value)
    return digest(text.encode())


class _Folder(Protocol):
    def write(self, name: str, data: bytes) -> None: ...

    def read(self, name: str) -> bytes | None: ...

    def exists(self, name: str) -> bool: ...


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _LocalFolder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, data: bytes) -> None:
        """Sync the file, rename it, then sync the folder, so that a reader sees the whole file or none."""
        target = self.root / name
        self._make_folder(target.parent)
        # Two writers of one blob must not share a scratch file.
        scratch = self.temporary / f"{os.getpid()}-{uuid.uuid4().hex}"
        try:
            with scratch.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
        _sync_folder(target.parent)

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        folder.mkdir(parents=True, exist_ok=True)
        # A new folder is durable only after its parent is synced.
        while folder != self.root:
            folder = folder.parent
            _sync_folder(folder)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def touch(self, name: str) -> None:
        """Note that the file was used; who may not, as on a read-only disk, leaves it at that."""
        with contextlib.suppress(OSError):
            os.utime(self.root / name)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.root).free

    def sweep(self, older_than_seconds: float) -> int:
        limit = time.time() - older_than_seconds
        # By age, not by process, because a writer on another host may still be writing.
        stale = [path for path in self.temporary.iterdir() if path.stat().st_mtime < limit]
        for path in stale:
            path.unlink(missing_ok=True)
        return len(stale)


class _RemoteFolder:
    """An object store writes an object whole or not at all, so no file needs to be renamed."""

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        self.filesystem = filesystem
        self.root = root

    def write(self, name: str, data: bytes) -> None:
        self.filesystem.pipe_file(f"{self.root}/{name}", data)

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self.filesystem.cat_file(f"{self.root}/{name}"))
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        return bool(self.filesystem.isfile(f"{self.root}/{name}"))


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
        self._local = _LocalFolder(Path(path)) if local else None
        self._folder: _Folder = self._local or _RemoteFolder(filesystem, path.rstrip("/"))

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
        if found is None or (found != data and unpack(found) != data):
            self._write(name, data)
        else:
            self._sync(name)
        return ref

    def put_packed(self, image: PackedImage) -> None:
        """Store ``image`` durably, unless it is stored already, packed or raw.

        Raises:
            StorageFull: there is no room.
        """
        name = blob_name(image.ref)
        found = self._folder.read(name)
        if found is None or (found != image.data and digest(found) != image.ref):
            self._write(name, image.data)
        else:
            self._sync(name)

    def put_passing(self, data: bytes) -> str:
        """Keep ``data`` as long as the budget allows, and return its digest; `get` finds it until then.

        Raises:
            StorageFull: there is no room.
        """
        ref = digest(data)
        if not self.exists(ref) and self.find(PASSING, ref) is None:
            self.keep(PASSING, ref, data)
        return ref

    def get(self, ref: str) -> bytes:
        """Return the bytes named ``ref``; those of a packed image are its raw form.

        Raises:
            ArtifactMissing: nothing is stored under ``ref``.
            ArtifactCorrupt: the stored bytes no longer match the digest.
        """
        data = self._folder.read(blob_name(ref)) if _DIGEST.fullmatch(ref) else None
        if data is None and _DIGEST.fullmatch(ref):
            data = self.find(PASSING, ref)
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

    def remember(self, kind: str, key: str, ref: str) -> None:
        """Record that the inputs with hash ``key`` gave the blob ``ref``; ``kind`` names the computation."""
        if not _DIGEST.fullmatch(ref):
            raise ValueError(f"{ref!r} is not a digest of 64 hexadecimal digits")
        self._write(_cache_name(kind, key), ref.encode())

    def recall(self, kind: str, key: str) -> str | None:
        """Return the blob recorded for ``key``, or None if the record or the blob is missing."""
        noted = self._folder.read(_cache_name(kind, key))
        ref = noted.decode("ascii", errors="replace") if noted is not None else ""
        return ref if self.exists(ref) else None

    def keep(self, kind: str, key: str, data: bytes) -> None:
        """Keep what the inputs with hash ``key`` gave, as long as the budget allows.

        For large intermediates that can be computed again: nothing but `find` may need them.

        Raises:
            StorageFull: there is no room.
        """
        self._write(_derived_name(kind, key), digest(data).encode() + data)

    def find(self, kind: str, key: str) -> bytes | None:
        """Return what was kept for ``key``; None if it was not, was evicted meanwhile, or is damaged."""
        name = _derived_name(kind, key)
        kept = self._folder.read(name)
        if kept is None or kept[:_DIGITS] != digest(kept[_DIGITS:]).encode():
            return None
        if self._local is not None:
            self._local.touch(name)
        return kept[_DIGITS:]

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
                f"the store's disk has {free} free bytes, fewer than FAULTLINE_LEAST_FREE_BYTES = "
                f"{least_free_bytes}; free some space, then retry"
            )

    def sweep(self, older_than_seconds: float = STALE_TEMPORARY_SECONDS) -> int:
        """Remove the incomplete files of killed writers, and return their number."""
        return 0 if self._local is None else self._local.sweep(older_than_seconds)

    def _sync(self, name: str) -> None:
        if self._local is not None:
            # Another process may have renamed it just now and not yet synced its folder.
            with self._translated(0):
                _sync_folder((self._local.root / name).parent)

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


def _cache_name(kind: str, key: str) -> str:
    return f"cache/{_keyed(kind, key)}"


def _derived_name(kind: str, key: str) -> str:
    return f"{DERIVED}/{_keyed(kind, key)}"


def _keyed(kind: str, key: str) -> str:
    if not _KIND.fullmatch(kind) or not _DIGEST.fullmatch(key):
        raise ValueError(f"a cache entry cannot be named {kind!r}, {key!r}; give a word and a digest")
    return f"{kind}/{key[:2]}/{key}"
