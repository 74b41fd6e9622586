"""The pace of work on many rows: chunks that lock the ledger for a moment, and gaps for other writers."""

from __future__ import annotations

import time
from collections.abc import Callable

CHUNK = 250
"""Items written in one transaction at most, which locks the ledger for about 5 ms."""

LEAST_CHUNK = 10
LOCKED_SECONDS = 0.025
"""How long a chunk may lock the ledger; after a longer one, the following chunks are smaller."""


class Pace:
    """How large the next chunk is, at most ``most``, and how long others have the ledger before it.

    pace = Pace(200)
    pace.note(4 * LOCKED_SECONDS)
    assert pace.size == 50
    """

    def __init__(self, most: int | None = None) -> None:
        self.size = self._most = CHUNK if most is None else most
        self._locked = 0.0
        self._since = time.perf_counter()

    def note(self, seconds: float, whole: float | None = None) -> None:
        """Note for how long a chunk of the current size locked the ledger, until now.

        ``whole``, default ``seconds``, is with the commit, which others wait for, too; but a smaller chunk
        would not shorten it.
        """
        self._locked, self._since = seconds if whole is None else whole, time.perf_counter()
        fitting = int(self.size * LOCKED_SECONDS / max(seconds, 1e-6))
        least = min(LEAST_CHUNK, self._most)
        self.size = max(least, min(self._most, 2 * self.size, fitting))

    def let_others_in(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait until the ledger has been free for as long as the last chunk locked it.

        A writer that waits for SQLite's lock looks again after pauses; without this it would meet a planner
        that computes quickly most of the time.
        """
        left = self._locked - (time.perf_counter() - self._since)
        if left > 0:
            sleep(left)


def never() -> bool:
    """Return False: whoever waits for the result does not stop."""
    return False


def in_chunks(
    step: Callable[[int], tuple[int, float]], most: int | None = None, *, stopped: Callable[[], bool] = never
) -> int:
    """Call ``step`` with a number of rows until it changes fewer; return how many were changed in all.

    ``step`` returns how many it changed, and for how many seconds it worked under the ledger's lock, without
    its wait for the lock and its commit. ``stopped`` is asked before each step: a process that ends leaves
    the rest to another.
    """
    pace, changed = Pace(most), 0
    while not stopped():
        pace.let_others_in()
        start, size = time.perf_counter(), pace.size
        some, locked = step(size)
        pace.note(locked, time.perf_counter() - start)
        changed += some
        if some < size:
            break
    return changed
