"""Time that only passes when every task waits: an hour of sleeps takes as long as the work between them."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class StalledError(Exception):
    """Every task waits for another one, and none for time."""


class _Jump(selectors.SelectSelector):
    """Passes the time instead of waiting for a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StalledError("no task waits for time, so nothing would ever happen")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop without sockets and threads, whose clock starts at 0."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        self.set_exception_handler(_ignore)

    def time(self) -> float:
        """Return the virtual seconds since the start."""
        return self._jump.now

    @contextmanager
    def in_charge(self) -> Iterator[None]:
        """Let all code of this thread read this loop's clock."""
        kept = time.monotonic, time.perf_counter
        time.monotonic = time.perf_counter = self.time
        try:
            yield
        finally:
            time.monotonic, time.perf_counter = kept


def _ignore(_: asyncio.AbstractEventLoop, __: Mapping[str, Any]) -> None:
    # Tasks of killed processes end with an error that nobody asks for.
    return
