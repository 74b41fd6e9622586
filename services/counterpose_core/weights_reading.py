"""Which file of weights a service reads as it starts: its replica writes it down, and who waits reads it.

One small file for each replica, in the state folder; a replica that was killed leaves its file, which no one
reads once it is old.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

FOLDER = "reading"
FRESH_S = 30.0
"""A replica writes every second, but a library that holds the interpreter may keep it from that."""
GIGABYTE, MEGABYTE = 10**9, 10**6


class WeightsReading(BaseModel, frozen=True, extra="ignore"):
    """How far a service has read a file of its weights; ``str`` says it in words."""

    service: str
    file: str
    read_bytes: int = Field(ge=0)
    size_bytes: int = Field(ge=0)

    def __str__(self) -> str:
        return f"{self.service}: {self.words}"

    @property
    def words(self) -> str:
        """What is read, and how much of it."""
        unit, size = (GIGABYTE, "GB") if self.size_bytes >= GIGABYTE else (MEGABYTE, "MB")
        read, whole = self.read_bytes / unit, self.size_bytes / unit
        return f"reading {self.file}, {read:.1f} of {whole:.1f} {size}"


def write_reading(state: Path, replica: str, reading: WeightsReading) -> None:
    """Write down what ``replica``, a name that no other has, reads now."""
    folder = state / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = folder / f"{replica}.new"
    written.write_text(reading.model_dump_json(), encoding="utf-8")
    # Who reads at this moment must not find half of it.
    written.replace(folder / f"{replica}.json")


def forget_reading(state: Path, replica: str) -> None:
    """Take away what ``replica`` has written down."""
    (state / FOLDER / f"{replica}.json").unlink(missing_ok=True)


def current_readings(state: Path) -> list[WeightsReading]:
    """Return what the replicas of a state folder read now, in the order of their names."""
    now, found = time.time(), []
    for file in sorted((state / FOLDER).glob("*.json")):
        # A replica that has just finished takes its file away between two of these lines.
        with suppress(FileNotFoundError, ValidationError):
            if now - file.stat().st_mtime < FRESH_S:
                found.append(WeightsReading.model_validate_json(file.read_bytes()))
    return found


class Patience:
    """How long one still waits for a start: the time begins anew with every sign of progress."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: object = None
        self._since = time.monotonic()

    def sees(self, seen: object) -> bool:
        """Take note of what is seen now; return False once it has stayed the same for too long."""
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since <= self._seconds
