"""Processes that sum up runs: away from the event loop, at low priority, ended when nobody waits for them."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from counterpose_core.errors import CounterposeError, InternalError, error_for
from counterpose_gateway.runs.freed_memory import return_freed_memory

V = TypeVar("V")
Task = Callable[[Any], V]
"""What a process does with the recorded runs that it opened."""

IDLE_SECONDS = 30.0
"""An idle process ends after so long: what a large run took goes back to the system."""

NICE = 10
"""A summary may take all that other work leaves, and no more: status reads go before it."""

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Work(Generic[V]):
    """A task that a process has or will get."""

    future: Future[V] = field(init=False)
    _hand: _Hand | None = None
    _given_up: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def give_up(self) -> None:
        """Stop the work; its future is cancelled, or fails with `CancelledError`."""
        self.future.cancel()
        with self._lock:
            self._given_up = True
            if self._hand is not None:
                self._hand.end()

    def taken_by(self, hand: _Hand | None) -> None:
        """Note the process that works on it, if any; raises `CancelledError` if it was given up."""
        with self._lock:
            self._hand = hand
            if self._given_up:
                raise CancelledError


class Processes:
    """At most ``number`` spawned processes, each with one task at a time; they start when first needed.

    work = processes.start(Summary(STRESS_TEST, run_id, None))
    summary = work.future.result()
    """

    def __init__(self, number: int, opened: Callable[[], object]) -> None:
        """Keep ``opened``, which each process calls to open the ledger and the store for itself."""
        self._opened = opened
        self._threads = ThreadPoolExecutor(number, thread_name_prefix="summary")
        # A thread owns one process. Spawned, because a fork would share connections and locks of threads.
        self._own = threading.local()
        self._running: set[Work[Any]] = set()
        self._lock = threading.Lock()

    def start(self, task: Task[V]) -> Work[V]:
        """Have a process do ``task``, which must be picklable, as must its result."""
        work = Work[V]()
        # Under the lock that the thread takes first: it must not end a work without a future.
        with self._lock:
            work.future = self._threads.submit(self._do, task, work)
        return work

    def close(self) -> None:
        """End all processes; what they had to do is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            running = list(self._running)
        for work in running:
            work.give_up()
        self._threads.shutdown()

    def _do(self, task: Task[V], work: Work[V]) -> V:
        with self._lock:
            self._running.add(work)
        try:
            hand = self._hand_of_thread(task, work)
            done, found = hand.answer()
        except EOFError:
            work.taken_by(None)
            raise InternalError(
                "the process that sums up runs was ended, perhaps for its memory; ask again"
            ) from None
        finally:
            with self._lock:
                self._running.discard(work)
        with contextlib.suppress(CancelledError):
            work.taken_by(None)
        if done:
            return found  # type: ignore[no-any-return]  # what the task returned, on the way through a pipe
        raise error_for(*found)

    def _hand_of_thread(self, task: Task[V], work: Work[V]) -> _Hand:
        """Hand the task to this thread's process, or to a new one if that has ended."""
        kept: _Hand | None = getattr(self._own, "hand", None)
        if kept is not None:
            work.taken_by(kept)
            if kept.takes(task):
                return kept
            kept.end()
        self._own.hand = hand = _Hand(self._opened)
        work.taken_by(hand)
        if not hand.takes(task):
            raise EOFError
        return hand


class _Hand:
    """One process and the pipe to it."""

    def __init__(self, opened: Callable[[], object]) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, opened), daemon=True, name="summaries")
        self._process.start()
        # The process has its own copy: without ours, the pipe ends with it.
        theirs.close()

    def takes(self, task: Task[Any]) -> bool:
        """Whether the process took the task; it may have ended of idleness just now."""
        try:
            self._pipe.send(task)
            self._pipe.recv()
        except (EOFError, OSError):
            return False
        return True

    def answer(self) -> tuple[bool, Any]:
        """Whether the task succeeded, and its result or error; raises `EOFError` if the process ended."""
        try:
            found: tuple[bool, Any] = self._pipe.recv()
        except (EOFError, OSError):
            self.end()
            self._process.join()
            raise EOFError from None
        return found

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()


def _serve(pipe: Connection, opened: Callable[[], object]) -> None:
    """Do tasks until there is none for a while, or the gateway is gone."""
    # The gateway ends us: an interrupt from the terminal reaches it too, and its callers get answers first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    return_freed_memory()
    runs: object = None
    with contextlib.suppress(EOFError, OSError):
        while pipe.poll(IDLE_SECONDS):
            task = pipe.recv()
            pipe.send(None)
            try:
                runs = runs or opened()
                answer: tuple[bool, Any] = (True, task(runs))
            except CounterposeError as error:
                answer = (False, (error.code, error.detail))
            except Exception:
                _logger.exception("a summary failed")
                answer = (False, (InternalError.code, "a summary failed; the gateway's log says why"))
            pipe.send(answer)
            del task, answer
