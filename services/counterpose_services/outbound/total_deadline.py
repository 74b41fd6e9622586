"""A bound on the whole of an HTTP call: httpx times each read alone, and a byte every second never ends."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import httpcore
import httpx

from counterpose_http.deadline import DeadlineBackend

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
    transport._pool._network_backend = DeadlineBackend(
        httpcore.SyncBackend(), lambda: _ends_at.get() - time.monotonic()
    )
    return transport
