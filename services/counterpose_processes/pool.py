"""Processes that do tasks beside this one, at low priority; one whose task is given up is killed."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

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
        self.task = task
        self._process: _Process | None = None
        self._given_up = False
        self._lock = threading.Lock()

    def give_up(self) -> None:
        """Stop the work; its result is cancelled, or fails with `CancelledError`."""
        self.cancel()
        with self._lock:
            self._given_up = True
            if self._process is not None:
                self._process.end()

    def taken_by(self, process: _Process | None) -> None:
        """Note the process that works on it, if any.

        Raises:
            CancelledError: it was given up.
        """
        with self._lock:
            self._process = process
            if self._given_up:
                raise CancelledError


class Pool:
    """At most ``number`` spawned processes, each with one task at a time; they start when first needed.

    Args:
        number: of processes.
        do: does a task in a process; it is pickled with what it holds, once for each process.
        lost: makes the error for who waits for a process that was killed.
    """

    def __init__(self, number: int, do: Callable[[Any], Any], lost: Callable[[], Exception]) -> None:
        self._do, self._lost = do, lost
        self._waiting: queue.SimpleQueue[Work[Any] | None] = queue.SimpleQueue()
        self._going: set[Work[Any]] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def start(self, task: Any) -> Work[Any]:
        """Have a process do ``task``, which must be picklable, as must its result and its error."""
        work = Work[Any](task)
        with self._lock:
            if self._closed:
                work.cancel()
            else:
                self._going.add(work)
                self._waiting.put(work)
        return work

    def close(self) -> None:
        """End all processes; what they had to do is given up."""
        with self._lock:
            self._closed = True
            going = list(self._going)
        for work in going:
            work.give_up()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        """Give tasks to the one process of this thread."""
        process = _Process(self._do)
        while True:
            try:
                work = self._waiting.get(timeout=IDLE_SECONDS if process.running else None)
            except queue.Empty:
                process.end()
                continue
            if work is None:
                process.end()
                return
            if work.set_running_or_notify_cancel():
                self._answer(work, process)
            with self._lock:
                self._going.discard(work)

    def _answer(self, work: Work[Any], process: _Process) -> None:
        try:
            process.start()
            work.taken_by(process)
            done, answer = process.answer(work.task)
        except (EOFError, OSError):
            process.end()
            done, answer = False, self._lost()
        except Exception as error:  # the task cannot be pickled, or was given up
            done, answer = False, error
        try:
            work.taken_by(None)
        except CancelledError as error:
            process.end()
            done, answer = False, error
        (work.set_result if done else work.set_exception)(answer)


class _Process:
    """One process, which is started again for the next task when it has ended, and the pipe to it."""

    def __init__(self, do: Callable[[Any], Any]) -> None:
        self._do = do
        self._started: SpawnProcess | None = None

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._started is not None and self._started.is_alive()

    def start(self) -> None:
        """Start it unless it runs."""
        if self.running:
            return
        # Spawned, because a fork would share connections and locks of threads.
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._started = context.Process(target=_serve, args=(theirs, self._do), daemon=True, name="pool")
        self._started.start()
        # The process has its own copy: without ours, the pipe ends with it.
        theirs.close()

    def answer(self, task: Any) -> tuple[bool, Any]:
        """Return whether it did the task, and its result or error.

        Raises:
            EOFError, OSError: the process ended.
        """
        self._pipe.send(task)
        answered: tuple[bool, Any] = self._pipe.recv()
        return answered

    def end(self) -> None:
        """Kill it."""
        if self._started is not None:
            self._started.kill()
            self._started.join()


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
