"""Where the store keeps its files: a folder of a local disk, or one of an object store."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fsspec import AbstractFileSystem

BEGINNING = 64
"""Bytes of a file that tell the size of an image."""

Before = Callable[[bytes], object]


class Folder(Protocol):
    """Keeps whole files by their names below a root.

    folder.write("blobs/ab/abc", data)
    """

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole and durably."""

    def read(self, name: str, before: Before | None = None) -> bytes | None:
        """Return a file, or None if there is none.

        ``before`` is given its first `BEGINNING` bytes, and may wait before the rest is read.
        """

    def exists(self, name: str) -> bool:
        """Return whether there is one."""

    def use(self, name: str) -> bool:
        """Note that the file is needed from now on; False if it went meanwhile, or must be written again."""

    def remove(self, name: str, unused_since: float) -> bool:
        """Remove the file unless it was written or needed since; return whether it is gone."""

    def beginning_with(self, folder: str, shard: str, beginning: str) -> list[str]:
        """Return the files of each kind below ``folder`` whose names begin so."""

    def has_files(self, folder: str) -> bool:
        """Return whether there is a file below ``folder``; stops at the first."""


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class LocalFolder:
    """Files on a local disk."""

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

    def read(self, name: str, before: Before | None = None) -> bytes | None:
        """Return a file, or None if there is none; ``before`` is given its beginning first."""
        try:
            with (self.root / name).open("rb") as file:
                if before is not None:
                    before(file.read(BEGINNING))
                    file.seek(0)
                return file.read()
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        """Return whether there is one."""
        return (self.root / name).is_file()

    def touch(self, name: str) -> None:
        """Note that the file was used; who may not, as on a read-only disk, leaves it at that."""
        with contextlib.suppress(OSError):
            os.utime(self.root / name)

    def use(self, name: str) -> bool:
        """Set the time of its last use; False if it is gone."""
        try:
            os.utime(self.root / name)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        # Another process may have renamed it just now and not yet synced its folder.
        _sync_folder((self.root / name).parent)
        return True

    def remove(self, name: str, unused_since: float) -> bool:
        """Move the file aside before its time is looked at: who needs it after that writes it again."""
        path, aside = self.root / name, self.temporary / f"{os.getpid()}-{uuid.uuid4().hex}"
        try:
            path.rename(aside)
        except FileNotFoundError:
            return True
        if aside.stat().st_mtime > unused_since:
            aside.rename(path)
            return False
        aside.unlink()
        _sync_folder(path.parent)
        return True

    def beginning_with(self, folder: str, shard: str, beginning: str) -> list[str]:
        """Return the files of each kind whose names begin so."""
        found = (self.root / folder).glob(f"*/{shard}/{beginning}*")
        return [str(path.relative_to(self.root)) for path in found]

    def has_files(self, folder: str) -> bool:
        """Return whether there is a file below ``folder``."""
        return any(files for _, _, files in os.walk(self.root / folder))

    def free_bytes(self) -> int:
        """Return the free bytes of the disk."""
        return shutil.disk_usage(self.root).free

    def sweep(self, older_than_seconds: float) -> int:
        """Remove scratch files of killed writers, and return their number."""
        limit = time.time() - older_than_seconds
        # By age, not by process, because a writer on another host may still be writing.
        stale = [path for path in self.temporary.iterdir() if path.stat().st_mtime < limit]
        for path in stale:
            path.unlink(missing_ok=True)
        return len(stale)


class RemoteFolder:
    """An object store writes an object whole or not at all, so no file needs to be renamed."""

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        self.filesystem = filesystem
        self.root = root

    def write(self, name: str, data: bytes) -> None:
        """Write an object."""
        self.filesystem.pipe_file(f"{self.root}/{name}", data)

    def read(self, name: str, before: Before | None = None) -> bytes | None:
        """Return an object, or None if there is none; ``before`` is given its beginning first."""
        path = f"{self.root}/{name}"
        try:
            if before is not None:
                before(bytes(self.filesystem.cat_file(path, start=0, end=BEGINNING)))
            return bytes(self.filesystem.cat_file(path))
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        """Return whether there is one."""
        return bool(self.filesystem.isfile(f"{self.root}/{name}"))

    def use(self, name: str) -> bool:
        """False: it is to be written again."""
        # An object's time cannot be set: it is written again.
        return False

    def remove(self, name: str, unused_since: float) -> bool:
        """Remove an object unless it was written since; return whether it is gone."""
        path = f"{self.root}/{name}"
        try:
            changed = self.filesystem.modified(path)
            if changed.timestamp() > unused_since:
                return False
            self.filesystem.rm_file(path)
        except FileNotFoundError:
            return True
        return True

    def beginning_with(self, folder: str, shard: str, beginning: str) -> list[str]:
        """Return the objects of each kind whose names begin so."""
        found = self.filesystem.glob(f"{self.root}/{folder}/*/{shard}/{beginning}*")
        # Some file systems answer without the first slash of their root.
        return [f"{folder}/{str(path).rpartition(f'/{folder}/')[2]}" for path in found]

    def has_files(self, folder: str) -> bool:
        """Return whether there is an object below ``folder``."""
        return any(files for _, _, files in self.filesystem.walk(f"{self.root}/{folder}"))
