"""The calls that only Linux has, and what stands in for them on other systems, such as macOS."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

PROC = Path("/proc")
BOOT_ID = Path("sys/kernel/random/boot_id")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_M_MMAP_THRESHOLD = -3
_RETURNED_FROM = 128 * 1024


class _Row(NamedTuple):
    """A process: its parent, its state in one letter or more, and when it began."""

    parent: int
    state: str
    start: str


def began(pid: int) -> str | None:
    """Tell when a process began; None if it has ended, even if it waits to be reaped."""
    row = _rows(pid).get(pid)
    return None if row is None or row.state.startswith("Z") else row.start


def descendants(ancestor: int) -> list[int]:
    """Return all processes below ``ancestor``, parents before their children."""
    rows = _rows()
    below = [ancestor]
    # The list grows while it is read: that way whole trees are walked.
    for pid in below:
        below += [child for child, row in rows.items() if row.parent == pid and child not in below]
    return below[1:]


def working_folders() -> Iterator[Path]:
    """Yield the folders in which processes run that this user may look at; none without ``/proc``."""
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):
            yield (process / "cwd").readlink()


def end_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it ends.

    Where the kernel does not, as on macOS, a process ends with its parent only if it watches a pipe to it.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of all processes below whose own parents end, where the kernel can do that.

    Elsewhere such a process belongs to the system's first one, and is reached by its group alone.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def return_freed_memory() -> None:
    """Have large arrays go back to the system when they are freed, where the allocator is glibc's.

    By default it keeps blocks of up to 32 MB for later, as soon as one of that size has been freed: between
    the steps of a large summary, a hundred megabytes that nothing uses.
    """
    set_option = _c_function("mallopt")
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _RETURNED_FROM)


def trim_memory() -> None:
    """Give the free pages of all heaps back to the system, where the allocator is glibc's."""
    trim = _c_function("malloc_trim")
    if trim is not None:
        trim(0)


def monotonic_clock() -> str | None:
    """Name the clock that `time.monotonic` reads, which processes may share; None if it has no name."""
    try:
        # Containers of one machine may be given monotonic clocks of their own.
        return f"{_boot()} {(PROC / 'self/ns/time').readlink()}"
    except OSError:
        return None


def _prctl(option: int, value: int) -> None:
    call = _c_function("prctl")
    if call is not None:
        call(option, value)


def _c_function(name: str) -> Callable[..., Any] | None:
    """Return a function of Linux's C library; another than glibc may not have it."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def _boot() -> str:
    return (PROC / BOOT_ID).read_text(encoding="ascii").strip()


def _rows(pid: int | None = None) -> Mapping[int, _Row]:
    """Return one process, if it is there, or all."""
    if not (PROC / "self/stat").exists():
        return _rows_of_ps(*(("-A",) if pid is None else ("-p", str(pid))))
    folders, boot = PROC.glob("[0-9]*") if pid is None else (PROC / str(pid),), _boot()
    rows = ((int(folder.name), _row_of_proc(folder, boot)) for folder in folders)
    return {number: row for number, row in rows if row is not None}


def _row_of_proc(folder: Path, boot: str) -> _Row | None:
    try:
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name, which may hold blanks and brackets.
    state, parent, *rest = stat.rsplit(")", 1)[1].split()
    # The start time counts clock ticks since boot: after a reboot another process may have the same.
    return _Row(int(parent), state, f"{boot}/{rest[17]}")


def _rows_of_ps(*chosen: str) -> Mapping[int, _Row]:
    listed = subprocess.run(
        ["ps", "-o", "pid=,ppid=,stat=,lstart=", *chosen],
        capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"},
    )  # fmt: skip
    rows = (line.split(None, 3) for line in listed.stdout.splitlines())
    return {int(pid): _Row(int(parent), state, start.strip()) for pid, parent, state, start in rows}
