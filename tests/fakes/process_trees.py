"""The descendants of a process: what a test may kill, because it started their ancestor."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path


def descendants(ancestor: int) -> list[int]:
    """All living processes below ``ancestor``, without itself."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(_parent(entry), []).append(int(entry.name))
    return list(_below(ancestor, children))


def title(pid: int) -> str:
    """What a process is called: its command line, or the name that it gave itself; empty if it has ended."""
    return _text(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()


def kill(pid: int) -> None:
    """Kill a process without a warning, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_all_below(ancestor: int) -> None:
    """Kill all living processes below ``ancestor``."""
    for pid in descendants(ancestor):
        kill(pid)


def resident_bytes(pid: int) -> int:
    """The memory that a process has in RAM; 0 if it is gone."""
    fields = _text(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * resource.getpagesize() if fields else 0


def _below(ancestor: int, children: dict[int, list[int]]) -> Iterator[int]:
    for child in children.get(ancestor, ()):
        yield child
        yield from _below(child, children)


def _parent(process: Path) -> int:
    fields = _text(process / "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
