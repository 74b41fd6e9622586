"""A server beside the replica: started, waited for, started again when it dies, and never left behind."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping, Sequence

from counterpose_core.errors import BackendUnavailable, CounterposeError
from counterpose_processes.ports import LOOPBACK
from counterpose_processes.supervised import Supervised

HEALTH = "/health"
"""The path that answers 200 when a server is ready."""
_CONNECTION_S = 5.0


class SupervisedServer:
    """Keeps one server on a port of loopback.

    Args:
        name: what errors call it.
        command: its command line.
        environment: all variables of the server.
        port: where it listens, on loopback.
        warm_up: called whenever the server has become ready, before anyone else may use it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        port: int,
        warm_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._port, self._warm_up = port, warm_up
        self._supervised = Supervised(name, command, environment=environment, ready=self._ready)

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            BackendUnavailable: it ended before it did, or does not in time.
        """
        try:
            self._supervised.start()
        except ChildProcessError as error:
            raise BackendUnavailable(str(error)) from error

    def wait(self, seconds: float) -> None:
        """Wait until the server answers, at most so many seconds.

        Raises:
            BackendUnavailable: it does not by then.
        """
        if not self._supervised.wait(seconds):
            raise BackendUnavailable(f"{self._supervised.problem}; it is being started again")

    @property
    def pid(self) -> int | None:
        """The process that guards the server, which leads the group of all its processes."""
        return self._supervised.pid

    def close(self) -> None:
        """Stop the server."""
        self._supervised.close()

    def _ready(self) -> bool:
        if not self._answers():
            return False
        try:
            self._warm_up()
        except CounterposeError as error:
            raise ChildProcessError(error.detail) from error
        return True

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=_CONNECTION_S)
        try:
            connection.request("GET", HEALTH)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
