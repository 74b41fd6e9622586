"""Work that several callers wait for: done once, its result kept, given up when nobody waits any more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from counterpose_gateway.runs.processes import Processes, Task, Work

V = TypeVar("V")


@dataclass(eq=False)
class _Joined:
    work: Work[Any]
    waiting: int = 0


class JoinedWork:
    """Tasks by a key that names their result: callers of one key share one task.

    with joined.asked(key, task) as future:
        summary = future.result()
    """

    def __init__(self, processes: Processes, kept: int) -> None:
        """Keep the last ``kept`` results."""
        self._processes = processes
        self._kept = kept
        self._results: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._going: dict[Hashable, _Joined] = {}
        # Guards both: a key is in one of them, or in none.
        self._lock = Lock()

    @contextmanager
    def asked(self, key: Hashable, task: Task[V], *, keep: bool = True) -> Iterator[Future[V]]:
        """Yield the result's future; who leaves the block waits no more, and the last one ends the work.

        ``keep``: whether the result is kept for later callers.
        """
        known, joined = self._join(key, task, keep)
        if joined is None:
            yield known
            return
        try:
            yield known
        finally:
            self._left(key, joined)

    def _join(self, key: Hashable, task: Task[V], keep: bool) -> tuple[Future[V], _Joined | None]:
        """The result's future, and the work that the caller waits for; None where the result is kept."""
        with self._lock:
            known = self._results.get(key)
            if known is not None:
                self._results.move_to_end(key)
                return known, None
            joined = self._going.get(key)
            if joined is not None:
                joined.waiting += 1
                return joined.work.future, joined
            joined = self._going[key] = _Joined(self._processes.start(task), waiting=1)
        # Without the lock: work that has ended by now calls back at once.
        joined.work.future.add_done_callback(lambda future: self._ended(key, joined, future, keep))
        return joined.work.future, joined

    def _left(self, key: Hashable, joined: _Joined) -> None:
        with self._lock:
            joined.waiting -= 1
            abandoned = not joined.waiting and self._going.get(key) is joined
            if abandoned:
                # Who asks from now on starts it again.
                del self._going[key]
        if abandoned:
            joined.work.give_up()

    def _ended(self, key: Hashable, joined: _Joined, future: Future[Any], keep: bool) -> None:
        with self._lock:
            if self._going.get(key) is not joined:
                return
            del self._going[key]
            # A failure is not kept: the next caller tries again.
            if keep and not future.cancelled() and future.exception() is None:
                self._results[key] = future
                while len(self._results) > self._kept:
                    self._results.popitem(last=False)

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._results.clear()

    def close(self) -> None:
        """End all processes."""
        self._processes.close()
