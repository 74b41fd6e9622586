"""A process of another program: whether it still runs, and how it is ended.

The system reuses pids, so a process is identified by its pid and its start time.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from counterpose_processes.system import began, descendants

STOP_TIMEOUT_S = 60.0
KILL_TIMEOUT_S = 5.0
POLL_S = 0.2


@dataclass(frozen=True)
class Process:
    """A process that leads its group, by its pid and its start, which no later process with that pid shares.

    Raises:
        ValueError: the pid is one that must not be signalled.
    """

    pid: int
    began: str
    started_at: datetime

    def __post_init__(self) -> None:
        if self.pid <= 1:
            raise ValueError(f"{self.pid} is no process of ours")

    @classmethod
    def of(cls, pid: int) -> Process:
        """Describe a process that was started just now."""
        return cls(pid, began(pid) or "", datetime.now(UTC))

    def alive(self) -> bool:
        """Tell whether this very process still runs."""
        return began(self.pid) == self.began

    def stop(self) -> None:
        """End it: SIGTERM first, then SIGKILL to it and its children if it does not end."""
        if self.alive():
            # It may have ended by itself since we looked.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            self._wait(STOP_TIMEOUT_S)
        if self.alive():
            kill_with_children(self.pid)
            self._wait(KILL_TIMEOUT_S)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.alive() and time.monotonic() < deadline:
            time.sleep(POLL_S)


def kill_with_children(leader: int) -> None:
    """Kill the unreaped leader of a group, the group, and what below the leader has left it."""
    for pid in descendants(leader):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    kill_group(leader)


def kill_group(leader: int) -> None:
    """Kill what is left of a group, if anything."""
    # macOS refuses it for a group whose processes all wait to be reaped.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
