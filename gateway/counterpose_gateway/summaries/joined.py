"""Work that several callers wait for: done once, its result kept, given up when nobody waits any more."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from counterpose_core.errors import CounterposeError, InternalError
from counterpose_processes.pool import Pool, Work

V = TypeVar("V")
Task = Callable[[Any], V]
"""What a process does with the recorded runs that it opened."""

_logger = logging.getLogger(__name__)


@dataclass
class Opening:
    """What each process does: it opens ledger and store once, and does tasks over them."""

    opened: Callable[[], object]
    _runs: object = None

    def __call__(self, task: Task[V]) -> V:
        """Do a task; errors that nobody foresaw tell their callers nothing."""
        try:
            self._runs = self._runs or self.opened()
            return task(self._runs)
        except CounterposeError:
            raise
        except Exception:
            _logger.exception("a summary failed")
            raise InternalError("a summary failed; the gateway's log says why") from None


def summing_processes(number: int, opened: Callable[[], object]) -> Pool:
    """Return at most ``number`` processes that sum up runs; each calls ``opened`` for ledger and store."""
    lost = "the process that sums up runs was ended, perhaps for its memory; ask again"
    return Pool(number, Opening(opened), lambda: InternalError(lost))


@dataclass(eq=False)
class _Joined:
    work: Work[Any]
    waiting: int = 0

    @property
    def failed(self) -> bool:
        done = self.work.done()
        return done and (self.work.cancelled() or self.work.exception() is not None)


class JoinedWork:
    """Tasks by a key that names their result: callers of one key share one task.

    with joined.asked(key, task) as future:
        summary = future.result()
    """

    def __init__(self, pool: Pool, kept: int) -> None:
        """Keep the last ``kept`` results."""
        self._pool = pool
        self._kept = kept
        self._known: OrderedDict[Hashable, _Joined] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def asked(
        self, key: Hashable, task: Task[V], *, keep: bool = True, caller: str = ""
    ) -> Iterator[Future[V]]:
        """Yield the result's future; who leaves the block waits no more, and the last one ends the work.

        ``keep``: whether the result is kept for later callers. ``caller``: for whom; callers take turns.
        """
        with self._lock:
            joined = self._known.get(key)
            if joined is None or joined.failed:
                # A failure is not kept: the next caller tries again.
                joined = self._known[key] = _Joined(self._pool.start(task, caller))
            joined.waiting += 1
            self._known.move_to_end(key)
        try:
            yield joined.work
        finally:
            self._left(key, joined, keep)

    def kept(self, key: Hashable) -> Any:
        """Return the kept result of a task, or None."""
        with self._lock:
            joined = self._known.get(key)
        return joined.work.result() if joined and joined.work.done() and not joined.failed else None

    def _left(self, key: Hashable, joined: _Joined, keep: bool) -> None:
        with self._lock:
            joined.waiting -= 1
            if joined.waiting:
                return
            ended = joined.work.done()
            if self._known.get(key) is joined and (joined.failed or not ended or not keep):
                # Who asks from now on starts it again.
                del self._known[key]
            results = [key for key, known in self._known.items() if not known.waiting]
            for oldest in results[: max(0, len(results) - self._kept)]:
                del self._known[oldest]
        if not ended:
            joined.work.give_up()

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            for key in [key for key, known in self._known.items() if known.work.done()]:
                del self._known[key]

    def close(self) -> None:
        """End all processes."""
        self._pool.close()
