"""The process of a service's replica, watched from outside: its memory and what it reads."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

PROC = Path("/proc")
TITLE = "ray::ServeReplica:"
INTERVAL_S = 0.2
KIBIBYTE = 1024


class Usage(BaseModel):
    """What a replica used at most: resident memory, the part of it that is its own, and bytes read.

    The rest of its resident memory are pages of files, which the system may take back. ``gpu_bytes`` is what
    the whole GPU had in use at most, less what it had before; null on a CPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    resident_bytes: int
    own_bytes: int
    called_bytes: int
    disk_bytes: int
    gpu_bytes: int | None = None


class ReplicaWatch:
    """Samples the replica among the descendants of a process, once it is there."""

    def __init__(self, ancestor: int, service: str, *, gpu: bool = False) -> None:
        self._ancestor, self._service, self._gpu = ancestor, service, gpu
        self._ended = threading.Event()
        self._own = self._gpu_most = 0
        self._pid: int | None = None
        self._gpu_before = _gpu_used() if gpu else 0

    @contextmanager
    def watching(self) -> Iterator[ReplicaWatch]:
        """Sample within the context."""
        thread = threading.Thread(target=self._sample, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def usage(self) -> Usage:
        """Return what the replica used so far; call this while it lives."""
        if self._pid is None:
            raise RuntimeError(f"the {self._service} has no replica among the processes of {self._ancestor}")
        status, io = _fields(self._pid, "status"), _fields(self._pid, "io")
        return Usage(
            resident_bytes=_kilobytes(status["VmHWM"]),
            own_bytes=max(self._own, _kilobytes(status["RssAnon"])),
            called_bytes=int(io["rchar"]),
            disk_bytes=int(io["read_bytes"]),
            gpu_bytes=self._gpu_most - self._gpu_before if self._gpu else None,
        )

    def _sample(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            if self._gpu:
                self._gpu_most = max(self._gpu_most, _gpu_used())
            self._pid = self._pid or self._found()
            if self._pid is None:
                continue
            try:
                self._own = max(self._own, _kilobytes(_fields(self._pid, "status")["RssAnon"]))
            except (OSError, KeyError):
                # Serve replaces a replica that did not start.
                self._pid = None

    def _found(self) -> int | None:
        for child in descendants(self._ancestor):
            try:
                title = (PROC / str(child) / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if title.startswith(f"{TITLE}{self._service}"):
                return child
        return None


def descendants(ancestor: int) -> Iterator[int]:
    """Yield the processes that a process started, and those that these started."""
    parents = dict(_parents())
    for pid in parents:
        above: int | None = pid
        while above is not None and above != ancestor:
            above = parents.get(above)
        if above == ancestor and pid != ancestor:
            yield pid


def _parents() -> Iterator[tuple[int, int]]:
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            # The name in brackets may hold spaces and brackets of its own.
            yield int(folder.name), int(stat.rpartition(")")[2].split()[1])


def _fields(pid: int, file: str) -> dict[str, str]:
    lines = (PROC / str(pid) / file).read_text(encoding="ascii", errors="replace").splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def _kilobytes(text: str) -> int:
    return int(text.split()[0]) * KIBIBYTE


def _gpu_used() -> int:
    asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return max(int(line) for line in told.split()) * 2**20
