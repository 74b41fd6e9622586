"""Processes that do tasks beside this one, at low priority; one whose task is given up is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar
from weakref import WeakSet

from counterpose_processes.system import end_with_parent, return_freed_memory

V = TypeVar("V")

IDLE_SECONDS = 30.0
"""An idle process ends after so long: what a large task took goes back to the system."""
NICE = 10
"""A task may take all that other work leaves, and no more."""


class Work(Future[V]):
    """The result of a task that a process has or will get."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        self.task, self.given_up = task, False
        self.process: BaseProcess | None = None

    def give_up(self) -> None:
        """Stop the work; its result is cancelled, or fails with `CancelledError`."""
        # Noted first: whoever has no process yet looks at it after having one.
        self.given_up = True
        if not self.cancel() and (process := self.process) is not None:
            process.kill()


class _Line:
    """The work that waits: callers take turns, and the work of each goes in the order of its coming."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Work[Any]]] = OrderedDict()
        self._changed = threading.Condition()
        self._ended = False

    def put(self, work: Work[Any], caller: str) -> None:
        """Let work wait behind all of its caller."""
        with self._changed:
            self._lines.setdefault(caller, deque()).append(work)
            self._changed.notify()

    def take(self, seconds: float | None) -> Work[Any] | None:
        """Return the work whose turn it is; None if none comes for so long, or none will."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ended, seconds)
            if self._ended or not self._lines:
                return None
            caller, line = self._lines.popitem(last=False)
            work = line.popleft()
            if line:
                self._lines[caller] = line
            return work

    def end(self) -> None:
        """Give no more work away."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Pool:
    """At most ``number`` spawned processes, each with one task at a time; they start when first needed.

    Args:
        number: of processes.
        do: does a task in a process; it is pickled with what it holds, once for each process.
        lost: makes the error for who waits for a process that was killed.
    """

    def __init__(self, number: int, do: Callable[[Any], Any], lost: Callable[[], Exception]) -> None:
        self._do, self._lost = do, lost
        self._line = _Line()
        self._works: WeakSet[Work[Any]] = WeakSet()
        self._closed = False
        # A thread has one process, which ends with it.
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def start(self, task: Any, caller: str = "") -> Work[Any]:
        """Have a process do ``task``, which must be picklable, as must its result and its error.

        ``caller``: for whom; callers whose tasks wait take turns.
        """
        work = Work[Any](task)
        self._works.add(work)
        self._line.put(work, caller)
        if self._closed:
            work.give_up()
        return work

    def close(self) -> None:
        """End all processes; what they had to do is given up."""
        self._closed = True
        for work in list(self._works):
            work.give_up()
        self._line.end()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._closed:
            child: _Child | None = None
            while work := self._line.take(None if child is None else IDLE_SECONDS):
                if work.set_running_or_notify_cancel():
                    child = self._answer(work, child)
                # Its result may be large, and is for who asked alone.
                del work
            if child is not None:
                child.end()

    def _answer(self, work: Work[Any], child: _Child | None) -> _Child:
        """Have a task done by this process, or by a new one where it has ended; return the process."""
        if child is None or not child.process.is_alive():
            child = _Child(self._do)
        work.process = child.process
        answer: Any
        try:
            done, answer = (False, None) if work.given_up else child.answer(work.task)
        except (EOFError, OSError):
            child.end()
            done, answer = False, self._lost()
        except Exception as error:  # it cannot be pickled
            done, answer = False, error
        work.process = None
        if work.given_up:
            # It may be killed at any moment.
            child.end()
            done, answer = False, CancelledError()
        (work.set_result if done else work.set_exception)(answer)
        return child


class _Child:
    """A process and the pipe to it."""

    def __init__(self, do: Callable[[Any], Any]) -> None:
        # Spawned, because a fork would share connections and locks of threads.
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, do), daemon=True, name="pool")
        self.process.start()
        # The process has its own copy: without ours, the pipe ends with it.
        theirs.close()

    def answer(self, task: Any) -> tuple[bool, Any]:
        """Return whether the task was done, and its result or error; raises if the process has ended."""
        self._pipe.send(task)
        answered: tuple[bool, Any] = self._pipe.recv()
        return answered

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, do: Callable[[Any], Any]) -> None:
    """Do tasks until who started this is gone."""
    # It ends us: an interrupt from the terminal reaches it too, and its callers get answers first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    os.nice(NICE)
    return_freed_memory()
    with suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            answer: tuple[bool, Any]
            try:
                answer = (True, do(task))
            except Exception as error:
                answer = (False, error)
            pipe.send(answer)
            # A large result goes before the next task comes.
            del task, answer
