"""The one thread in which a replica's model works, so that the event loop stays free."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

from faultline_core.errors import BackendUnavailable

Arguments = ParamSpec("Arguments")
Body = TypeVar("Body", contravariant=True)
Answer = TypeVar("Answer", covariant=True)
Value = TypeVar("Value")


class Cancellable(Protocol[Body, Answer]):
    """A call that polls ``cancelled`` between its steps."""

    def __call__(self, body: Body, /, *, cancelled: Callable[[], bool]) -> Answer: ...


class EngineThread:
    """Runs calls one after another; a call whose caller has gone before it began never begins."""

    def __init__(self, *, hung_after_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        # Two calls at once would need the memory of two batches, and torch has its own threads for one.
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._hung_after_s = hung_after_s
        self._clock = clock
        # Set in the thread, read on the loop: one reference, which CPython stores whole.
        self._busy_since: float | None = None

    async def run(
        self, function: Callable[Arguments, Value], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Value:
        """Return what ``function`` returns, or raise what it raises."""

        def timed() -> Value:
            self._busy_since = self._clock()
            try:
                return function(*args, **kwargs)
            finally:
                self._busy_since = None

        # A caller cancelled while the call waits takes it out of the executor's queue.
        return await asyncio.get_running_loop().run_in_executor(self._pool, timed)

    async def run_cancellable(self, function: Cancellable[Body, Value], body: Body) -> Value:
        """Run ``function`` with a flag to poll, which turns True once the caller has gone."""
        gone = threading.Event()
        try:
            return await self.run(function, body, cancelled=gone.is_set)
        except asyncio.CancelledError:
            gone.set()
            raise

    def check(self) -> None:
        """Raise BackendUnavailable when a call has run for longer than any call may."""
        since = self._busy_since
        if since is not None and self._clock() - since > self._hung_after_s:
            raise BackendUnavailable(f"the engine has been busy with one call for {self._hung_after_s:g} s")
