"""A bound on the whole of an HTTP call: httpx times each read alone, and a byte every second never ends."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ssl import SSLContext
from typing import Any

import httpcore
import httpx

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)


@contextmanager
def total_deadline(seconds: float) -> Iterator[None]:
    """Give the calls of this block so many seconds together; they fail with httpx's time-outs."""
    before = _ends_at.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(before)


def deadline_transport(connections: int = 100) -> httpx.HTTPTransport:
    """Return a transport whose calls keep `total_deadline`; it keeps up to ``connections`` open."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    # Without `trust_env`, because no setting allows a proxy of the environment to see what is sent.
    transport = httpx.HTTPTransport(trust_env=False, limits=limits)
    # A newer httpx that has no such backend must fail here: without it the bound would silently be lost.
    if not isinstance(transport._pool._network_backend, httpcore.NetworkBackend):
        raise TypeError("httpx has no network backend to bound; install the version in requirements.lock")
    transport._pool._network_backend = _Backend()
    return transport


def _left(timeout: float | None, error: type[httpcore.TimeoutException]) -> float:
    left = _ends_at.get() - time.monotonic()
    if left <= 0:
        raise error("the time of the whole call is over")
    return left if timeout is None else min(left, timeout)


class _Backend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._sockets.connect_tcp(host, port, left, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # Not by the stream below, which times each of its own sends alone.
        socket, left = self._stream.get_extra_info("socket"), memoryview(buffer)
        while left:
            socket.settimeout(_left(timeout, httpcore.WriteTimeout))
            try:
                left = left[socket.send(left) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout(str(error)) from error
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
