"""A program that this process starts: in a group of its own, with its log, ended with its children."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from counterpose_processes.guard import guarded as under_guard
from counterpose_processes.process import kill_group, kill_with_children

_LAST_BYTES = 16_000


class Program:
    """A running program; as a context it is killed with its children at the end.

    Args:
        command: its command line.
        environment: all its variables; None is those of this process.
        folder: where it runs; None is where this process does.
        log: a file that its output is added to; None is the output of this process.
        guarded: whether a guard ends it when this process ends, in whatever way; else it lives on.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        log: Path | IO[bytes] | None = None,
        guarded: bool = False,
    ) -> None:
        self._log = log
        with log.open("ab") if isinstance(log, Path) else nullcontext(log) as output:
            self._log_start = 0 if output is None else output.seek(0, os.SEEK_END)
            self._popen = subprocess.Popen(
                under_guard(command) if guarded else list(command),
                stdin=subprocess.PIPE if guarded else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=None if environment is None else dict(environment),
                cwd=folder,
                # Ctrl-C in this terminal must reach us alone, and all of the group can be ended at once.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The leader of the group: the program, or its guard."""
        return self._popen.pid

    def poll(self) -> int | None:
        """Return the code with which it has ended, negative for a signal; None if it runs."""
        return self._popen.poll()

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until it ends, and return its code; None if it has not by then."""
        with suppress(subprocess.TimeoutExpired):
            return self._popen.wait(seconds)
        return None

    def last_lines(self) -> list[str]:
        """Return the last lines that it has written to its log."""
        if self._log is None:
            return []
        with self._log.open("rb") if isinstance(self._log, Path) else nullcontext(self._log) as log:
            start = max(os.fstat(log.fileno()).st_size - _LAST_BYTES, self._log_start)
            # Its own place in the file stays where it is: a program shares that.
            written = os.pread(log.fileno(), _LAST_BYTES, start)
        return written.decode(errors="replace").splitlines()

    def abandon(self) -> None:
        """Have its guard ask it to stop, and kill it some seconds later."""
        if self._popen.stdin is not None:
            with suppress(OSError):
                self._popen.stdin.close()

    def kill(self) -> None:
        """Kill it with its children."""
        self.abandon()
        # The pid of one that was reaped may soon be another's; it is never while its group has processes.
        (kill_with_children if self.poll() is None else kill_group)(self.pid)
        self._popen.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
