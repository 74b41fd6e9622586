"""Connections that end at a moment: a server that sends a byte now and then holds nobody for longer."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpcore


class DeadlineBackend(httpcore.NetworkBackend):
    """Dials by another backend; each wait of a connection ends ``seconds`` after the dialling."""

    def __init__(
        self,
        backend: httpcore.NetworkBackend,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend, self._seconds, self._clock = backend, seconds, clock

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect as the other backend does."""
        ends = self._clock() + self._seconds
        stream = self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        return _DeadlineStream(stream, lambda: ends - self._clock())


class _DeadlineStream(httpcore.NetworkStream):
    """A connection whose waits end when ``left`` returns no more seconds."""

    def __init__(self, stream: httpcore.NetworkStream, left: Callable[[], float]) -> None:
        self._stream, self._left = stream, left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._wait(httpcore.ReadTimeout, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._wait(httpcore.WriteTimeout, timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        wait = self._wait(httpcore.ConnectTimeout, timeout)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, wait), self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def _wait(self, over: type[httpcore.TimeoutException], timeout: float | None) -> float:
        left = self._left()
        if left <= 0:
            raise over("the deadline of the whole exchange has passed")
        return left if timeout is None else min(left, timeout)
