"""Whether the reading of a shard goes on: looked at before each piece of it, whatever it is read for.

A tar may have any number of members that belong to no sample, and a server may send them without end.
"""

from __future__ import annotations

import threading
import time
from typing import IO, Any, cast

from counterpose_core.errors import LeaseLost, ShardUnreadable

SILENT_SECONDS = 300.0
"""So long may a shard be read without a sample."""


class Watch:
    """Ends the reading of a shard whose import was stopped, or that gives nothing for too long."""

    def __init__(self, path: str, stopped: threading.Event) -> None:
        self._path, self._stopped = path, stopped
        self.rest()

    def rest(self) -> None:
        """Count the time anew: a sample was found."""
        self._since = time.monotonic()

    def look(self) -> None:
        """Go on, or end.

        Raises:
            LeaseLost: the import was stopped.
            ShardUnreadable: there was no sample for `SILENT_SECONDS`.
        """
        if self._stopped.is_set():
            raise LeaseLost(f"the import from {self._path!r} was stopped")
        if time.monotonic() > self._since + SILENT_SECONDS:
            raise ShardUnreadable(
                f"the shard {self._path!r} was read for {SILENT_SECONDS:g} s without an image or a label; "
                "leave out what belongs to no sample"
            )

    def watched(self, file: IO[bytes]) -> IO[bytes]:
        """Return the file; before each piece of it that is read, `look` is called."""
        return cast("IO[bytes]", _Watched(file, self))


class _Watched:
    """A file that is looked at before each of its pieces is read."""

    def __init__(self, file: IO[bytes], watch: Watch) -> None:
        self._file, self._watch = file, watch

    def read(self, size: int = -1) -> bytes:
        self._watch.look()
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
