"""A server beside the replica: started, waited for, started again when it dies, and never left behind."""

from __future__ import annotations

import http.client
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from counterpose_core.errors import BackendUnavailable, CounterposeError
from counterpose_services import guard

START_S = 600.0
"""A model of 30 GB takes minutes from a slow disk."""
POLL_S = 0.1
PAUSES_S = (0.0, 1.0, 5.0, 15.0, 60.0)
"""Before a server is started again, by how often it died without having answered; the last repeats."""
_LAST_BYTES = 4000
_CONNECTION_S = 5.0

_log = logging.getLogger(__name__)


class SupervisedServer:
    """Keeps one server on a port of loopback.

    Args:
        name: what errors call it.
        command: its command line.
        environment: all variables of the server.
        port: where it listens, on loopback.
        health: the path that answers 200 when the server is ready.
        warm_up: called whenever the server has become ready, before anyone else may use it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        port: int,
        health: str = "/health",
        warm_up: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.port = name, port
        self._command, self._environment, self._health, self._warm_up = command, environment, health, warm_up
        self._up, self._ended = threading.Event(), threading.Event()
        self._problem, self._failures = f"{name} has not answered yet", 0
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            BackendUnavailable: it ended before it did, or does not in time.
        """
        self._thread.start()
        while not self._up.wait(POLL_S):
            if self._failures:
                problem = self._problem
                self.close()
                raise BackendUnavailable(problem)

    def wait(self, seconds: float) -> None:
        """Wait until the server answers, at most so many seconds.

        Raises:
            BackendUnavailable: it does not by then.
        """
        if not self._up.wait(max(seconds, 0.0)):
            raise BackendUnavailable(f"{self._problem}; it is being started again")

    @property
    def pid(self) -> int | None:
        """The process that guards the server, which leads the group of all its processes."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """Stop the server."""
        self._ended.set()
        self._up.clear()
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if self._thread.is_alive():
            self._thread.join(guard.GRACE_S + POLL_S * 50)

    def _keep(self) -> None:
        while not self._ended.wait(PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]):
            answered = self._run_once()
            self._failures = 0 if answered else self._failures + 1
            if not self._ended.is_set():
                _log.warning("%s", self._problem)

    def _run_once(self) -> bool:
        """Run the server until it ends; return whether it ever answered."""
        with tempfile.TemporaryFile() as told:
            process = self._process = subprocess.Popen(
                [sys.executable, guard.__file__, *self._command],
                stdin=subprocess.PIPE,
                stdout=told,
                stderr=told,
                env=dict(self._environment),
                # The guard leads a group of its own, so that all of it can be ended at once.
                start_new_session=True,
            )
            try:
                if answered := self._await(process):
                    self._up.set()
                    process.wait()
            finally:
                self._up.clear()
                _end_group(process)
            state = "ended" if answered else "ended before it answered"
            self._problem = f"{self.name} {state}: {_last_line(told)}"
        return answered

    def _await(self, process: subprocess.Popen[bytes]) -> bool:
        ends = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < ends and not self._ended.is_set():
            if self._answers():
                return self._warmed()
            time.sleep(POLL_S)
        return False

    def _warmed(self) -> bool:
        try:
            self._warm_up()
        except CounterposeError as error:
            _log.warning("%s does not answer as it should: %s", self.name, error.detail)
            return False
        return True

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_CONNECTION_S)
        try:
            connection.request("GET", self._health)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what a killed guard may have left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _last_line(told: IO[bytes]) -> str:
    size = told.seek(0, os.SEEK_END)
    told.seek(max(size - _LAST_BYTES, 0))
    lines = told.read().decode(errors="replace").strip().splitlines()
    named = [line for line in lines if "Error" in line]
    return ((named or lines or ["it said nothing"])[-1]).strip()[-500:]


def free_port() -> int:
    """Return a port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
