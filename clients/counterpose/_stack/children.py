"""Child processes, each with its own session and log; the error for one that dies quotes its last lines."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from counterpose._stack.process import KILL_TIMEOUT_S, Process
from counterpose._stack.readiness import last_lines
from counterpose._stack.record import ProcessName
from counterpose_core.errors import BackendUnavailable


@dataclass(frozen=True)
class _Child:
    popen: subprocess.Popen[bytes]
    log_start: int


@dataclass(frozen=True)
class Children:
    """The processes that this program has started in a state folder, by name."""

    state: Path
    _known: dict[ProcessName, _Child] = field(default_factory=dict, repr=False)

    def log(self, name: ProcessName) -> Path:
        """The file that a process writes to."""
        return self.state / f"{name}.log"

    def spawn(self, name: ProcessName, command: Sequence[str], environment: Mapping[str, str]) -> Process:
        """Start a process in the state folder."""
        with self.log(name).open("ab") as log:
            start = log.tell()
            # Ctrl-C in this terminal must reach us alone: we stop the processes in their order.
            popen = subprocess.Popen(
                list(command), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=dict(environment), start_new_session=True, cwd=self.state,
            )  # fmt: skip
        self._known[name] = _Child(popen, start)
        return Process.of(popen.pid)

    def require_none_ended(
        self, names: Iterable[ProcessName], running: Mapping[ProcessName, Process]
    ) -> None:
        """Raise if one of these children has ended.

        Raises:
            BackendUnavailable: one has ended; the message quotes its last lines.
        """
        for name in names:
            if name not in running:
                child, log = self._known[name], self.log(name)
                message = f"the {name} ended while starting (exit code {child.popen.poll()})"
                lines = last_lines(log, child.log_start)
                raise BackendUnavailable(f"{message}; {str(log)!r} says:\n{lines}")

    def reap(self, running: Mapping[ProcessName, Process]) -> None:
        """Collect what has ended: a child stays a zombie until its parent waits for it."""
        for name, child in self._known.items():
            if name not in running:
                # Its other threads may end shortly after its first one.
                with suppress(subprocess.TimeoutExpired):
                    child.popen.wait(KILL_TIMEOUT_S)
