"""SHA-256 digests of files, kept beside path, size and times: weights of 13 GB take half a minute to hash."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ValidationError

KEPT_FROM_BYTES = 8 * 2**20
"""A smaller file is hashed in less time than a record of it is worth."""
SETTLED_S = 2.0
"""A file that changed this recently may change once more within one tick of its clock."""


class _Record(BaseModel, frozen=True, extra="forbid"):
    path: str
    size: int
    # A copy that keeps the original's time of change has its own time of status change.
    modified_ns: int
    status_ns: int
    sha256: str


class FileDigests:
    """Digests of files, each computed once until its file changes; several processes may share the folder.

    Without a folder, nothing is kept.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def keep_in(self, folder: Path) -> None:
        """Keep digests in ``folder`` from now on, and find those that are there."""
        self._folder = folder

    def of(self, file: Path) -> str:
        """Return the file's digest, in hexadecimal.

        Raises:
            OSError: the file cannot be read.
        """
        path = file.resolve()
        before = path.stat()
        if self._folder is None or before.st_size < KEPT_FROM_BYTES:
            return _hashed(path)
        record = self._folder / f"{hashlib.sha256(str(path).encode()).hexdigest()}.json"
        known = _read(record)
        if known is not None and known == _described(path, before, known.sha256):
            return known.sha256
        found = _described(path, before, _hashed(path))
        # One that changed while it was read has a digest that no file has.
        if found == _described(path, path.stat(), found.sha256) and _settled(before):
            _write(record, found)
        return found.sha256


DIGESTS = FileDigests()
"""The digests of this process, which a replica keeps in its state folder."""


def _described(path: Path, status: os.stat_result, sha256: str) -> _Record:
    return _Record(
        path=str(path),
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        status_ns=status.st_ctime_ns,
        sha256=sha256,
    )


def _settled(status: os.stat_result) -> bool:
    return time.time() - max(status.st_mtime, status.st_ctime) > SETTLED_S


def _hashed(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(record: Path) -> _Record | None:
    try:
        return _Record.model_validate_json(record.read_bytes())
    except (OSError, ValidationError):
        # None yet, or one of another version: the file is hashed again.
        return None


def _write(record: Path, found: _Record) -> None:
    written = record.with_name(f"{record.stem}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written.write_text(found.model_dump_json(), encoding="utf-8")
        # Another process may read or write the same record now.
        written.replace(record)
    except OSError:
        # A folder that cannot be written, or a full disk, costs the time of the next start and nothing else.
        with suppress(OSError):
            written.unlink(missing_ok=True)
