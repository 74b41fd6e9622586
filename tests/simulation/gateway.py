"""The simulated gateway: what its routes do on a ledger, behind a network that loses things."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import TypeVar, cast

from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.progress.following import FollowedRuns, event_stream, first_event_id
from counterpose_gateway.records.items import Plan
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import submit_planned
from fakes.ledgers import config
from simulation.processes import KilledError, Process
from simulation.work import first_items
from simulation.world import World

R = TypeVar("R")

_NUMBER = re.compile(rb"(?m)^id: (\d+)\r$")


class LostError(Exception):
    """No answer came; the call may have been done or not."""


class Gateway:
    """Serves clients while its process lives, and is started again when it does not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._process: Process | None = None
        self._ledger: Ledger | None = None
        self._followed: FollowedRuns | None = None

    async def keep_serving(self) -> None:
        """Start the process again and again."""
        while not self._world.is_closing:
            self._process, self._ledger = self._world.new_process("gateway")
            self._followed = FollowedRuns(self._ledger.events)
            died = asyncio.Event()
            self._process.on_death.append(died.set)
            self._process.start(asyncio.to_thread(self._ledger.runs.go_on))
            await died.wait()
            self._process = None
            await asyncio.sleep(self._world.faults.seconds(0.5, 8.0))

    async def create(self, many: int, *, staged: bool, key: str) -> Run:
        """Create a run, as `POST` does; some networks bring the request twice."""
        answers = [self._ask(self._submission(many, staged, key))]
        if self._world.faults.occurs("request comes twice", 0.2):
            answers.append(self._ask(self._submission(many, staged, key)))
        made = await asyncio.gather(*answers, return_exceptions=True)
        if len({each.id for each in made if isinstance(each, Run)}) > 1:
            self._world.judge.found(f"I4: the key {key!r} made two runs")
        if isinstance(made[0], BaseException):
            raise made[0]
        return made[0]

    def _submission(self, many: int, staged: bool, key: str) -> Callable[[Ledger], Awaitable[Run]]:
        resolved = StressTestConfig.model_validate(config())
        request = resolved.request.model_copy(update={"seed": many})
        resolved = resolved.model_copy(update={"request": request})
        made = Plan("demo", resolved, first_items(many), staged, sources={"demo": 1})
        method = self._world.method

        async def plan() -> Plan:
            return made

        async def submit(ledger: Ledger) -> Run:
            # Planning is done, so nothing but the ledger is asked for.
            context = cast(RunContext, SimpleNamespace(ledger=ledger))
            return await submit_planned(method, request, plan, context, key)

        return submit

    async def call(self, work: Callable[[Ledger], R]) -> R:
        """Do what a route does by one call of the ledger."""

        async def called(ledger: Ledger) -> R:
            return await asyncio.to_thread(work, ledger)

        return await self._ask(called)

    def listen(self, run_id: str, last_seen: int | None) -> asyncio.Queue[int | None]:
        """Return the numbers of the events as they come, and None at the end of the stream."""
        numbers: asyncio.Queue[int | None] = asyncio.Queue()
        process, followed = self._process, self._followed
        if process is None or followed is None or not process.is_alive:
            numbers.put_nowait(None)
        else:
            process.on_death.append(lambda: numbers.put_nowait(None))
            process.start(self._send(process, followed, run_id, last_seen, numbers))
        return numbers

    async def _send(
        self,
        process: Process,
        followed: FollowedRuns,
        run_id: str,
        last_seen: int | None,
        numbers: asyncio.Queue[int | None],
    ) -> None:
        try:
            after = await first_event_id(followed, run_id, last_seen)
            async for sent in event_stream(followed, run_id, after=after):
                await process.going_on()
                for number in _NUMBER.findall(sent):
                    if self._world.faults.occurs("stream is cut", 0.03):
                        return
                    numbers.put_nowait(int(number))
        finally:
            numbers.put_nowait(None)

    async def _ask(self, work: Callable[[Ledger], Awaitable[R]]) -> R:
        process, ledger = self._process, self._ledger
        if process is None or ledger is None or self._world.faults.occurs("request is lost", 0.1):
            raise LostError
        died = asyncio.Event()
        process.on_death.append(died.set)
        working = process.start(_awaited(work, ledger))
        waiting = asyncio.create_task(died.wait())
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not working.done() or self._world.faults.occurs("answer is lost", 0.1):
            raise LostError
        try:
            return working.result()
        except KilledError:
            raise LostError from None


async def _awaited(work: Callable[[Ledger], Awaitable[R]], ledger: Ledger) -> R:
    return await work(ledger)
