"""The threads that run a replica's engine, so that the event loop stays free: one for a model of its own."""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

from counterpose_core.errors import BackendUnavailable
from counterpose_processes.system import trim_memory

Arguments = ParamSpec("Arguments")
Body = TypeVar("Body", contravariant=True)
Answer = TypeVar("Answer", covariant=True)
Value = TypeVar("Value")

TRIMMED_AFTER_S = 5.0
"""How long no call has come before the memory that calls have freed goes back to the system."""


class Cancellable(Protocol[Body, Answer]):
    """A call that polls ``cancelled`` between its steps."""

    def __call__(self, body: Body, /, *, cancelled: Callable[[], bool]) -> Answer: ...


class EngineThread:
    """Runs calls one after another; a call does not begin if its caller has already gone.

    An engine that only waits for a server runs ``calls`` at once.
    """

    def __init__(
        self,
        *,
        hung_after_s: float,
        clock: Callable[[], float] = time.monotonic,
        calls: int = 1,
        trimmed_after_s: float = TRIMMED_AFTER_S,
    ) -> None:
        # Two calls at once would need memory for two batches, and torch uses its own threads within one.
        self._pool = ThreadPoolExecutor(max_workers=calls, thread_name_prefix="engine")
        self._hung_after_s = hung_after_s
        self._clock = clock
        # Set in a thread, read on the loop: CPython changes a dictionary atomically.
        self._busy_since: dict[int, float] = {}
        self._trimmed_after_s = trimmed_after_s
        self._trim: asyncio.TimerHandle | None = None
        self._waiting = 0

    async def run(
        self, function: Callable[Arguments, Value], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Value:
        """Return the result of ``function``, or raise its exception."""

        def timed() -> Value:
            self._busy_since[threading.get_ident()] = self._clock()
            try:
                return function(*args, **kwargs)
            finally:
                del self._busy_since[threading.get_ident()]

        # A thread of the pool would not know whose call it works on.
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        if self._trim is not None:
            self._trim.cancel()
        self._waiting += 1
        try:
            # If the caller is cancelled while the call waits, the executor drops the call.
            return await loop.run_in_executor(self._pool, context.run, timed)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._trim = loop.call_later(self._trimmed_after_s, self._pool.submit, trim_memory)

    async def run_cancellable(self, function: Cancellable[Body, Value], body: Body) -> Value:
        """Run ``function`` with a flag that becomes True when the caller has gone."""
        gone = threading.Event()
        try:
            return await self.run(function, body, cancelled=gone.is_set)
        except asyncio.CancelledError:
            gone.set()
            raise

    def check(self) -> None:
        """Raise BackendUnavailable if a call has run longer than the limit."""
        since = min(tuple(self._busy_since.values()), default=math.inf)
        if self._clock() - since > self._hung_after_s:
            raise BackendUnavailable(f"the engine has been busy with one call for {self._hung_after_s:g} s")
