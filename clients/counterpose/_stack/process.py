"""A process of another program: whether it still runs, and how it is stopped.

The system reuses pids, so a process is identified by its pid and its start time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

STOP_TIMEOUT_S = 60.0
KILL_TIMEOUT_S = 5.0
POLL_S = 0.2
PROC = Path("/proc")
BOOT_ID = PROC / "sys/kernel/random/boot_id"


class Process(BaseModel):
    """A process, by its pid and its start, which no later process with that pid shares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int = Field(gt=1)
    began: str
    started_at: datetime

    @classmethod
    def of(cls, pid: int) -> Process:
        """Describe a process that was started just now."""
        return cls(pid=pid, began=began(pid) or "", started_at=datetime.now(UTC))

    def alive(self) -> bool:
        """Tell whether this very process still runs."""
        return began(self.pid) == self.began

    def stop(self) -> None:
        """End it: SIGTERM first, then SIGKILL to it and its children if it does not end."""
        for sent, patience in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, KILL_TIMEOUT_S)):
            if not self.alive():
                return
            # It may have ended by itself since we looked.
            with suppress(ProcessLookupError):
                # It leads its own process group; a killed launcher cannot stop Ray's processes itself.
                os.killpg(self.pid, sent) if sent == signal.SIGKILL else os.kill(self.pid, sent)
            self._wait(patience)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.alive() and time.monotonic() < deadline:
            time.sleep(POLL_S)


def began(pid: int) -> str | None:
    """Tell when a process began; None if it has ended, even if it waits to be reaped."""
    return _began_by_proc(pid) if (PROC / "self/stat").exists() else _began_by_ps(pid)


def _began_by_proc(pid: int) -> str | None:
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name, which may hold blanks and brackets.
    state, *rest = stat.rsplit(")", 1)[1].split()
    # The start time counts clock ticks since boot: after a reboot another process may have the same.
    return None if state == "Z" else f"{BOOT_ID.read_text(encoding='utf-8').strip()}/{rest[18]}"


def _began_by_ps(pid: int) -> str | None:
    """Ask ``ps`` on systems without ``/proc``, such as macOS."""
    asked = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    listed = subprocess.run(
        asked, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"}
    )
    state, _, start = listed.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else start.strip()
