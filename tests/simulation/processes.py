"""Simulated processes: their calls are the only moments at which they affect anything, so they end there."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Literal, ParamSpec, TypeVar, cast

from sqlalchemy.exc import OperationalError

from counterpose_core.errors import BackendUnavailable
from counterpose_gateway.services.calls import Accounts
from simulation.faults import Faults, Point

P = ParamSpec("P")
R = TypeVar("R")

Kind = Literal["worker", "gateway"]
Event = Literal[
    "dies before a call",
    "dies before a commit",
    "dies after a commit",
    "stops before a call",
    "stops after a call",
]

CALL_SECONDS = 0.02
"""A call takes up to so long before and after its work: other processes come in between."""


class KilledError(BaseException):
    """The process is gone: nothing of it may catch this and go on."""


class Process:
    """A gateway or a worker from its start to its end; ``name`` is of this life alone.

    ``seen`` is called after each call that may have changed something. ``troubled_at``: when a fault last
    held the process up, so that its leases may have run out.
    """

    def __init__(self, kind: Kind, name: str, faults: Faults, seen: Callable[[], None]) -> None:
        self.kind: Kind = kind
        self.name = name
        self.is_alive = True
        self.troubled_at = float("-inf")
        self.on_death: list[Callable[[], None]] = []
        self.accounts: Accounts | None = None
        self._faults = faults
        self._seen = seen
        self._commits = 0
        self._stopped_until = 0.0
        # The loop holds its tasks weakly.
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Run ``work`` as a task of this process."""
        token = PROCESS.set(self)
        try:
            task = asyncio.get_running_loop().create_task(work)
        finally:
            PROCESS.reset(token)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def kill(self) -> None:
        """End the process at once; its tasks do nothing any more."""
        if not self.is_alive:
            return
        self.is_alive = False
        for told in self.on_death:
            told()

    def stop(self) -> None:
        """Stop the process for a while, as SIGSTOP does."""
        seconds = self._faults.seconds(0.5, 45.0)
        until = asyncio.get_running_loop().time() + seconds
        # One that is stopped already goes on no sooner: some of its tasks sleep until then.
        self._stopped_until = max(self._stopped_until, until)

    def has_trouble(self) -> None:
        """Note that a fault holds the process up."""
        self.troubled_at = asyncio.get_running_loop().time()

    async def call(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what `asyncio.to_thread` does, with the faults that may occur there."""
        self._meets("dies before a call", "stops before a call")
        await self._pause()
        self._commits = 0
        try:
            answer = work(*args, **kwargs)
        finally:
            self._seen()
        if self._commits:
            self._meets("dies after a commit")
            if self._faults.occurs("answer of a commit is lost", 0.004):
                self.has_trouble()
                raise BackendUnavailable("the connection broke before the answer came")
        self._meets("stops after a call")
        await self._pause()
        return answer

    def before_lock(self) -> None:
        """Meet a ledger that others keep locked."""
        if self._faults.occurs("ledger is locked", 0.01):
            self.has_trouble()
            raise _refusal("SQLITE_BUSY", "database is locked")

    def before_commit(self) -> None:
        """Meet what prevents a commit."""
        self._meets("dies before a commit")
        if not self.is_alive:
            raise KilledError
        if self._faults.occurs("ledger's disk is full", 0.01):
            self.has_trouble()
            raise _refusal("SQLITE_FULL", "database or disk is full")
        self._commits += 1

    async def going_on(self) -> None:
        """Wait while the process is stopped; raises `KilledError` if it is dead."""
        while self.is_alive and (left := self._stopped_until - asyncio.get_running_loop().time()) > 0:
            self.has_trouble()
            await asyncio.sleep(left)
            self.has_trouble()
        if not self.is_alive:
            raise KilledError

    async def _pause(self) -> None:
        await self.going_on()
        await asyncio.sleep(self._faults.seconds(0.0, CALL_SECONDS))
        await self.going_on()

    def _meets(self, *events: Event) -> None:
        # A gateway is called less often than a worker calls.
        rate = 0.01 if self.kind == "worker" else 0.04
        for event in events:
            point = cast(Point, f"{self.kind} {event}")  # both kinds have these points
            if self._faults.occurs(point, rate):
                if event in ("stops before a call", "stops after a call"):
                    self.stop()
                else:
                    self.kill()


def _refusal(name: str, words: str) -> OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorname = name
    return OperationalError("COMMIT", None, error)


PROCESS: ContextVar[Process] = ContextVar("process")
"""The process that the task belongs to."""


async def to_process(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Stand in for `asyncio.to_thread`: the process of the task makes the call."""
    return await PROCESS.get().call(work, *args, **kwargs)
