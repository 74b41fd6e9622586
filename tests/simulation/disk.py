"""The disk below the store: what is written is durable when the write returns, and not before."""

from __future__ import annotations

import errno

from counterpose_core.blob_folders import BEGINNING, Before
from counterpose_core.blobs import BlobStore
from simulation.faults import Faults
from simulation.processes import PROCESS, KilledError


class Disk:
    """The files of all processes' stores."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def has(self, ref: str) -> bool:
        """Return whether the blob of this digest is durable."""
        return f"blobs/{ref[:2]}/{ref}" in self.files


class _Folder:
    def __init__(self, disk: Disk, faults: Faults) -> None:
        self._disk = disk
        self._faults = faults

    def write(self, name: str, data: bytes) -> None:
        if self._faults.occurs("store's disk is full", 0.03):
            raise OSError(errno.ENOSPC, "no space left on device")
        if self._faults.occurs("worker dies within a write", 0.02):
            PROCESS.get().kill()
            raise KilledError
        self._disk.files[name] = data

    def read(self, name: str, before: Before | None = None) -> bytes | None:
        data = self._disk.files.get(name)
        if data is not None and before is not None:
            before(data[:BEGINNING])
        return data

    def exists(self, name: str) -> bool:
        return name in self._disk.files

    def use(self, name: str) -> bool:
        return self.exists(name)

    def remove(self, name: str, unused_since: float) -> bool:
        # No time passes for files here: nothing is on its way.
        self._disk.files.pop(name, None)
        return True

    def has_files(self, folder: str) -> bool:
        return any(name.startswith(f"{folder}/") for name in self._disk.files)

    def beginning_with(self, folder: str, shard: str, beginning: str) -> list[str]:
        parts = ((name, name.split("/")) for name in self._disk.files if name.startswith(f"{folder}/"))
        return [
            name for name, (_, _, *rest) in parts if rest[:1] == [shard] and rest[-1].startswith(beginning)
        ]


def store_on(disk: Disk, faults: Faults) -> BlobStore:
    """Return a store whose files are on the disk."""
    store = BlobStore("memory://simulation")
    # Its own folders are a file system and a bucket; a test of each is elsewhere.
    store._folder = _Folder(disk, faults)
    return store
