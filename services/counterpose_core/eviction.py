"""Eviction from the store: of what can be computed again, the least recently used goes first.

Only files under the store's folder of such things are looked at, so nothing that a run names can go. Any
number of processes may evict, keep and find at once: a file appears whole by renaming, goes whole by
unlinking, and who has opened it reads it to its end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

RECENT_SECONDS = 60.0
"""What was used in the last minute stays whatever the budget: a call would compute it again at once."""


@dataclass(frozen=True)
class Eviction:
    """What one pass found and evicted: files and their bytes, and the bytes that are left."""

    files: int
    bytes: int
    left_bytes: int


@dataclass(frozen=True)
class _Kept:
    used_at: float
    bytes: int
    path: str


def evict(
    folder: Path,
    budget: int | None,
    *,
    recent_seconds: float = RECENT_SECONDS,
    clock: Callable[[], float] = time.time,
) -> Eviction:
    """Remove the least recently used files below ``folder`` until at most ``budget`` bytes are left.

    A file that is used between the look and its turn stays. Without a budget nothing is removed.
    """
    kept = sorted(_files(folder), key=lambda each: (each.used_at, each.path))
    left = sum(each.bytes for each in kept)
    if budget is None:
        return Eviction(0, 0, left)
    files = freed = 0
    latest = clock() - recent_seconds
    for each in kept:
        if left <= budget or each.used_at > latest:
            break
        if _remove(each):
            files, freed = files + 1, freed + each.bytes
        elif Path(each.path).exists():
            continue
        left -= each.bytes
    return Eviction(files, freed, left)


def _files(folder: Path) -> Iterator[_Kept]:
    folders = [os.fspath(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif (found := _looked_at(entry)) is not None:
                        yield found
        except FileNotFoundError:
            # Nothing was kept yet.
            continue


def _looked_at(entry: os.DirEntry[str]) -> _Kept | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # Another process evicted it just now.
        return None
    return _Kept(status.st_mtime, status.st_size, entry.path)


def _remove(kept: _Kept) -> bool:
    """Remove the file, unless it was used since the look, or is gone."""
    path = Path(kept.path)
    try:
        if path.stat(follow_symlinks=False).st_mtime != kept.used_at:
            return False
        path.unlink()
    except FileNotFoundError:
        return False
    return True
