"""Disks whose N-th write fails: of SQLite's file by its own hook for system calls, of the store by Python's.

SQLite lets a test replace the system calls of its file system (``xSetSystemCall``), so that the library that
the ledger uses meets the error where a real one would be.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3  # noqa: F401  # maps its library
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_WRITES = (b"pwrite64", b"pwrite", b"write")
_Write = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, use_errno=True
)


class _Vfs(ctypes.Structure):
    """The beginning of ``sqlite3_vfs``, version 3."""

    _fields_ = (
        ("version", ctypes.c_int), ("file_size", ctypes.c_int), ("longest_path", ctypes.c_int),
        ("following", ctypes.c_void_p), ("name", ctypes.c_char_p), ("data", ctypes.c_void_p),
        ("methods", ctypes.c_void_p * 13),
        ("set_call", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ("get_call", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)),
    )  # fmt: skip


class FailingWrites:
    """Counts the writes of this process to ledger and store; the one of number ``nth`` fails, once."""

    def __init__(self, nth: int | None, code: int) -> None:
        self.nth, self.code = nth, code
        self.written = 0
        self._turn = threading.Lock()

    def fails(self) -> bool:
        """Count a write, and return whether it fails."""
        with self._turn:
            self.written += 1
            return self.written == self.nth


@contextmanager
def failing_writes(nth: int | None, code: int) -> Iterator[FailingWrites]:
    """Let the N-th write to a SQLite file, or sync of a store's file or folder, fail with an error number."""
    writes = FailingWrites(nth, code)
    sync = os.fsync

    def fsync(handle: int) -> None:
        if writes.fails():
            raise OSError(code, os.strerror(code))
        sync(handle)

    with pytest.MonkeyPatch.context() as patch, _sqlite_writes(writes):
        patch.setattr(os, "fsync", fsync)
        yield writes


@contextmanager
def _sqlite_writes(writes: FailingWrites) -> Iterator[None]:
    library = _sqlite()
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    vfs = library.sqlite3_vfs_find(None)
    kept: list[Any] = []
    for name in _WRITES:
        address = vfs.contents.get_call(vfs, name)
        if address is None:
            continue
        replaced = _Write(_failing(_Write(address), writes))
        kept.append(replaced)
        assert vfs.contents.set_call(vfs, name, ctypes.cast(replaced, ctypes.c_void_p)) == 0
    try:
        yield
    finally:
        for name in _WRITES:
            vfs.contents.set_call(vfs, name, None)


def _failing(write: Any, writes: FailingWrites) -> Any:
    def called(handle: int, data: int, size: int, offset: int) -> int:
        if writes.fails():
            ctypes.set_errno(writes.code)
            return -1
        return int(write(handle, data, size, offset))

    return called


def _sqlite() -> ctypes.CDLL:
    """The library that Python's own module uses, and no other of this machine."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    for path in sorted({line.split()[-1] for line in lines if "sqlite3" in line}):
        library = ctypes.CDLL(path)
        if hasattr(library, "sqlite3_vfs_find"):
            return library
    pytest.skip("this Python's SQLite does not show its functions")
