"""Connections that end at a moment: a server that sends a byte now and then holds nobody for longer.

httpx times each read and each write alone.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import httpcore


class DeadlineBackend(httpcore.NetworkBackend):
    """Dials by another backend; each wait of a connection ends when ``left`` returns no more seconds."""

    def __init__(self, sockets: httpcore.NetworkBackend, left: Callable[[], float]) -> None:
        self._sockets, self._left = sockets, left

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *where: Any, **options: Any
    ) -> httpcore.NetworkStream:
        """Connect as the other backend does."""
        wait = _wait(self._left, httpcore.ConnectTimeout, timeout)
        return _DeadlineStream(self._sockets.connect_tcp(host, port, wait, *where, **options), self._left)


class _DeadlineStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, left: Callable[[], float]) -> None:
        self._stream, self._left = stream, left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _wait(self._left, httpcore.ReadTimeout, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # Not by the stream below, which times each of its own sends alone.
        socket, rest = self._stream.get_extra_info("socket"), memoryview(buffer)
        while rest:
            socket.settimeout(_wait(self._left, httpcore.WriteTimeout, timeout))
            try:
                rest = rest[socket.send(rest) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout(str(error)) from error
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        wait = _wait(self._left, httpcore.ConnectTimeout, timeout)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, wait), self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _wait(left: Callable[[], float], over: type[httpcore.TimeoutException], timeout: float | None) -> float:
    seconds = left()
    if seconds <= 0:
        raise over("the time of the whole exchange is over")
    return seconds if timeout is None else min(seconds, timeout)
