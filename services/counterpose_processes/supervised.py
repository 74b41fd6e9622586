"""A program that is started again whenever it ends, and that never outlives this process."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

from counterpose_processes.guard import GRACE_S
from counterpose_processes.program import Program

START_S = 600.0
"""A model of 30 GB takes minutes from a slow disk."""
STEADY_S = 60.0
"""A task that ran for so long and then ended may be started again at once."""
POLL_S = 0.1
PAUSES_S = (0.0, 1.0, 5.0, 15.0, 60.0)
"""Before a program is started again, by how often in a row it ended unready or soon; the last repeats."""

_log = logging.getLogger(__name__)


class Supervised:
    """Keeps one program running: a server, which has to become ready, or a task, which ends by itself.

    Args:
        name: what messages call it.
        command: its command line.
        environment: all its variables; None is those of this process.
        ready: whether a server can be used; asked until it can. What it raises says that the server never
            will. None for a task, which is done when it ends with 0.
        failure: makes the error for who waits for it to be ready.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
        failure: Callable[[str], Exception] = ChildProcessError,
    ) -> None:
        self.name = name
        self.problem = f"{name} has not answered yet"
        self._command, self._environment, self._ready, self._failure = command, environment, ready, failure
        self._up, self._closed = threading.Event(), threading.Event()
        self._failures = 0
        self._program: Program | None = None
        self._thread = threading.Thread(target=self.keep, name=name, daemon=True)

    def start(self) -> None:
        """Keep it running in a thread; return when it is ready.

        Raises:
            Exception: ``failure``; it ended before it was, or was not in time.
        """
        self._thread.start()
        while not self._up.wait(POLL_S):
            if self._failures:
                problem = self.problem
                self.close()
                raise self._failure(problem)

    def wait(self, seconds: float) -> None:
        """Wait until it is ready, at most so many seconds.

        Raises:
            Exception: ``failure``; it is not by then.
        """
        if not self._up.wait(max(seconds, 0.0)):
            raise self._failure(f"{self.problem}; it is being started again")

    @property
    def pid(self) -> int | None:
        """The process that guards the program, which leads the group of all its processes."""
        return None if self._program is None else self._program.pid

    def close(self) -> None:
        """Stop the program, and start it no more."""
        self._closed.set()
        self._up.clear()
        if self._program is not None:
            self._program.abandon()
        if self._thread.is_alive():
            self._thread.join(GRACE_S + POLL_S * 50)

    def keep(self) -> None:
        """Keep it running in this thread: a server until it is closed, a task until it ends with 0."""
        while not self._closed.wait(self._pause):
            code = self._run_once()
            if code == 0 and self._ready is None:
                return
            if not self._closed.is_set():
                _log.warning("%s; it is started again in %g s", self.problem, self._pause)

    @property
    def _pause(self) -> float:
        return PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]

    def _run_once(self) -> int | None:
        """Run it until it ends; return its code, or None where it never became ready."""
        with nullcontext() if self._ready is None else tempfile.TemporaryFile() as log:
            with Program(self._command, environment=self._environment, log=log, guarded=True) as program:
                self._program = program
                if steady := self._await(program):
                    self._up.set()
                try:
                    code = program.wait() if steady else program.poll()
                finally:
                    self._up.clear()
            self._failures = 0 if steady else self._failures + 1
            words = "ended" if steady or self._ready is None else "ended before it answered"
            self.problem = f"{self.name} {words}: {_told(program, code)}"
        return code

    def _await(self, program: Program) -> bool:
        """Wait until it is ready, or for a task until it has run for a while; return whether it got there."""
        if self._ready is None:
            return program.wait(STEADY_S) is None
        ends = time.monotonic() + START_S
        while program.poll() is None and time.monotonic() < ends and not self._closed.is_set():
            try:
                if self._ready():
                    return True
            except Exception as error:  # whatever it is: this thread goes on
                _log.warning("%s does not answer as it should: %s", self.name, error)
                return False
            time.sleep(POLL_S)
        return False


def _told(program: Program, code: int | None) -> str:
    """Return the last words of a program that name an error, else its last ones, else its code."""
    lines = [line.strip() for line in program.last_lines() if line.strip()]
    named = [line for line in lines if "Error" in line]
    return (named or lines or [f"exit code {code}"])[-1][-500:]
