"""The simulated world: one ledger file, one disk, a gateway, workers that are started again, clients."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

from counterpose_gateway import ledger as ledger_module
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database.session import Steady
from counterpose_gateway.ledger.runs import changes
from counterpose_gateway.methods import METHODS
from counterpose_gateway.progress import following
from counterpose_gateway.records import pace
from counterpose_gateway.runs import large_plans
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.services.ports import Services
from counterpose_gateway.worker import shared_ledger
from counterpose_gateway.worker import worker as worker_module
from counterpose_gateway.worker.planner import Planner
from counterpose_gateway.worker.spending import LedgerAccounts
from counterpose_gateway.worker.worker import Worker
from fakes.ledger_audit import violated, violated_totals
from simulation.database import empty_ledger, shared_database
from simulation.disk import Disk, store_on
from simulation.faults import Faults, Point
from simulation.judge import Judge
from simulation.processes import Kind, Process, to_process
from simulation.virtual_time import VirtualLoop
from simulation.work import SimulatedMethod, as_method

START = 1_800_000_000.0
LEASE_SECONDS = 12.0
WORKERS = 3
HANDS = 2
IDLE_SECONDS = 6.0
"""Idle workers look at the ledger, which takes most of the simulation's time."""
FAULTS_FOR_SECONDS = 90.0
"""After so long no more faults occur, and every run must end."""


class WallClock:
    """The machine's clock, which somebody sets."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.offset = START

    def __call__(self) -> float:
        """Return the seconds since the epoch."""
        return self._loop.time() + self.offset


@dataclass
class World:
    """What the processes of one simulation share."""

    faults: Faults
    loop: VirtualLoop
    clock: WallClock
    disk: Disk
    judge: Judge

    def __post_init__(self) -> None:
        self.method = as_method(SimulatedMethod(self.faults, self.judge.asked))
        self.methods: dict[str, AnyMethod] = {self.method.kind: self.method}
        self.processes: list[Process] = []
        self.is_closing = False
        self._started = 0

    def new_process(self, kind: Kind) -> tuple[Process, Ledger]:
        """Start a process with its own connection to the ledger."""
        self._started += 1
        process = Process(kind, f"{kind}-{self._started}", self.faults, self.judge.look)
        ledger = Ledger("", clock=self.clock, steady=Steady("machine", self.loop.time))
        self.processes = [each for each in self.processes if each.is_alive] + [process]
        self.judge.processes[process.name] = process
        return process, ledger

    async def keep_working(self) -> None:
        """Start a worker again and again, as its supervisor does."""
        while not self.is_closing:
            process, ledger = self.new_process("worker")
            died, stop = asyncio.Event(), asyncio.Event()
            process.on_death.append(died.set)
            working = process.start(self._work(process, ledger, stop))
            waiting = asyncio.create_task(died.wait())
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            process.kill()
            await asyncio.sleep(self.faults.seconds(0.5, 8.0))

    async def disturb(self) -> None:
        """Let happen what concerns no single process, until faults are over."""
        while self.loop.time() < FAULTS_FOR_SECONDS:
            await asyncio.sleep(self.faults.seconds(1.0, 10.0))
            if self.faults.occurs("all processes die", 0.05):
                for process in self.processes:
                    process.kill()
            if self.faults.occurs("clock goes forward", 0.05):
                self.clock.offset += self.faults.random.choice((5.0, 3600.0))
            if self.faults.occurs("clock goes back", 0.05):
                self.clock.offset -= self.faults.random.choice((5.0, 3600.0))
        self.faults.are_over = True

    def audit(self) -> None:
        """Let the ledger audit itself when all is over: it must agree with the judge."""
        self.faults.are_over = True
        _, ledger = self.new_process("gateway")
        for run in ledger.runs.page().runs:
            for wrong in violated(ledger, run.id):
                self.judge.found(f"audit: run {run.id}: {wrong}")
        for wrong in violated_totals(ledger):
            self.judge.found(f"audit: {wrong}")

    async def _work(self, process: Process, ledger: Ledger, stop: asyncio.Event) -> None:
        process.accounts = LedgerAccounts(ledger)
        await asyncio.to_thread(ledger.runs.go_on)
        store, methods = store_on(self.disk, self.faults), self.methods
        planner = Planner(ledger, methods, lease_seconds=LEASE_SECONDS, most_items=10_000, store=store)
        worker = Worker(
            process.name, ledger=ledger, store=store, services=cast(Services, None),
            concurrency=HANDS, lease_seconds=LEASE_SECONDS, planner=planner,
        )  # fmt: skip
        working = process.start(worker.work(stop))
        while not working.done():
            await asyncio.wait((working,), timeout=10.0)
            if self.faults.occurs("worker ends cleanly", 0.05):
                stop.set()
        await working


def new_world(seed: int, loop: VirtualLoop, likely: Collection[Point]) -> World:
    """Return the world of a seed before anything has happened."""
    disk, faults = Disk(), Faults(seed, likely)
    return World(faults, loop, WallClock(loop), disk, Judge(empty_ledger(), disk, loop.time))


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Let the product's code run in the world: its threads, clocks, random numbers and pauses."""
    ids = random.Random(world.faults.random.random())
    few = world.faults.random.choice((2, 1_000))

    def token_hex(n: int) -> str:
        return ids.randbytes(n).hex()

    replaced: list[tuple[Any, str, Any]] = [
        (asyncio, "to_thread", to_process),
        (secrets, "token_hex", token_hex),
        (ledger_module, "Database", shared_database),
        (shared_ledger, "_jitter", random.Random(ids.random())),
        (worker_module, "IDLE_SECONDS", IDLE_SECONDS),
        (following, "LOOK_SECONDS", 2.0),
        (pace, "CHUNK", 4),
        (large_plans, "STORED_AT_CREATION", 6),
        # So that small runs are also cancelled and resumed in several transactions.
        (changes, "CANCELLED_AT_ONCE", few),
        (changes, "RESUMED_AT_ONCE", few),
    ]
    with ExitStack() as stack:
        stack.enter_context(world.loop.in_charge())
        stack.enter_context(patch.dict(METHODS, world.methods))
        for owner, name, value in replaced:
            stack.enter_context(patch.object(owner, name, value))
        yield
