"""Simulated clients: each makes a run, listens to it, may cancel, resume or delete it, and sees its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from counterpose_core.contract.runs import Run
from counterpose_core.errors import (
    CounterposeError,
    NotFound,
    RunNotCancellable,
    RunNotDeletable,
    RunNotResumable,
)
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from simulation.gateway import Gateway, LostError
from simulation.world import World

R = TypeVar("R")


class Client:
    """One user with one run at a time."""

    def __init__(self, world: World, gateway: Gateway, number: int) -> None:
        self._world = world
        self._gateway = gateway
        self._faults = world.faults
        self._judge = world.judge
        self._number = number

    async def use(self) -> None:
        """Make a run and see it through; make another one where the first is deleted."""
        run_id = await self._create("first")
        await self._see_through(run_id)
        if self._faults.occurs("run is deleted", 0.5):
            await self._delete(run_id)
            await self._see_through(await self._create("second"))

    async def _create(self, key: str) -> str:
        draw = self._faults.random
        many, staged, name = draw.randint(1, 14), draw.random() < 0.4, f"{key}-{self._number}"
        made = await self._until_answered(lambda: self._gateway.create(many, staged=staged, key=name))
        self._judge.promised.add(made.id)
        again = await self._until_answered(lambda: self._gateway.create(many, staged=staged, key=name))
        if again.id != made.id:
            self._judge.found(f"I4: the key {name!r} made the runs {made.id} and {again.id}")
        return made.id

    async def _see_through(self, run_id: str) -> None:
        ended = asyncio.Event()
        listening = asyncio.create_task(self._listen(run_id, ended))
        while await self._interferes(run_id):
            pass
        await self._end_of(run_id)
        ended.set()
        self._judge.received(run_id, await listening)

    async def _interferes(self, run_id: str) -> bool:
        """Cancel or resume the run if that is this user's mood; whether they may do more."""
        if self._faults.occurs("run is cancelled", 0.5):
            await asyncio.sleep(self._faults.seconds(0.0, 30.0))
            await self._cancel(run_id)
            if self._faults.occurs("run is resumed", 0.9):
                await asyncio.sleep(self._faults.seconds(0.0, 3.0))
                await self._resume(run_id)
                return True
        return False

    async def _cancel(self, run_id: str) -> None:
        try:
            answered = await self._until_answered(
                lambda: self._call(lambda ledger: ledger.runs.cancel(run_id))
            )
        except RunNotCancellable:
            # Ended before, or the answer of an earlier call was lost.
            answered = await self._status(run_id)
            if answered.state not in FINAL_RUN_STATES:
                self._judge.found(f"I7: run {run_id} cannot be cancelled, and is {answered.state}")
            if answered.state != "cancelled":
                return
        self._judge.cancel_promised(run_id)

    async def _resume(self, run_id: str) -> None:
        self._judge.resume_asked(run_id)
        try:
            await self._until_answered(lambda: self._call(lambda ledger: ledger.runs.resume(run_id)))
        except RunNotResumable:
            # It is being cancelled still, or an earlier call's answer was lost.
            return

    async def _delete(self, run_id: str) -> None:
        self._judge.deletion_asked(run_id)
        try:
            await self._until_answered(lambda: self._call(lambda ledger: ledger.runs.delete(run_id)))
        except (NotFound, RunNotDeletable):
            return

    async def _end_of(self, run_id: str) -> Run:
        while True:
            run = await self._status(run_id)
            if run.state in FINAL_RUN_STATES:
                return run
            await asyncio.sleep(3.0)

    async def _status(self, run_id: str) -> Run:
        return await self._until_answered(lambda: self._call(lambda ledger: ledger.runs.get(run_id)))

    async def _call(self, work: Callable[[Ledger], R]) -> R:
        return await self._gateway.call(work)

    async def _until_answered(self, call: Callable[[], Awaitable[R]]) -> R:
        while True:
            try:
                return await call()
            except LostError:
                await asyncio.sleep(self._faults.seconds(0.2, 2.0))
            except CounterposeError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(self._faults.seconds(0.2, 2.0))

    async def _listen(self, run_id: str, ended: asyncio.Event) -> list[int]:
        """Follow the run over as many streams as it takes, and return the numbers of its events."""
        received: list[int] = []
        while not (ended.is_set() and received and received[-1] == self._judge.numbers[run_id][-1]):
            numbers = self._gateway.listen(run_id, received[-1] if received else None)
            while (number := await numbers.get()) is not None:
                if received and number <= received[-1]:
                    self._judge.found(f"events: {number} came after {received[-1]} in run {run_id}")
                received.append(number)
            await asyncio.sleep(self._faults.seconds(0.1, 1.0))
        return received
