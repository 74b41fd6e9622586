"""Tasks for the processes that make summaries: small to import, as each new process does it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STARTED_SECONDS = 100.0


@dataclass(frozen=True)
class Lasting:
    """Writes its process's id into a new file, and ends when ``end`` is there."""

    folder: Path

    def __call__(self, _: object) -> int:
        """Return the process's id."""
        (self.folder / f"{time.time_ns()}.started").write_text(str(os.getpid()))
        while not (self.folder / "end").exists():
            time.sleep(0.01)
        return os.getpid()

    def process(self) -> int:
        """Wait for its start, and return the process that started it first."""
        until(lambda: bool(self.started))
        return int(self.started[0].read_text())

    @property
    def started(self) -> list[Path]:
        """A file for each start, the first one first."""
        return sorted(each for each in self.folder.glob("*.started") if each.read_text())


@dataclass(frozen=True)
class Loaded:
    """Says what the process that got ``tasks`` has loaded for them."""

    tasks: tuple[object, ...]

    def __call__(self, _: object) -> set[str]:
        """Return the names of its modules."""
        return set(sys.modules)


def fail(_: object) -> None:
    """Fail as no code should."""
    raise ValueError("a secret of the gateway")


def until(reached: Callable[[], bool]) -> None:
    """Wait until ``reached`` says so."""
    end = time.monotonic() + STARTED_SECONDS
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)
