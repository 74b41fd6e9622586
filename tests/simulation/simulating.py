"""One simulation: from an empty ledger until every run has ended, or an invariant does not hold."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

from simulation.clients import Client
from simulation.faults import Point
from simulation.gateway import Gateway
from simulation.virtual_time import StalledError, VirtualLoop
from simulation.world import FAULTS_FOR_SECONDS, WORKERS, World, new_world, simulated

CLIENTS = 2
ENDED_AFTER_SECONDS = 600.0
"""Without faults every run ends within this time: the longest lease and all attempts take a tenth of it."""


@dataclass(frozen=True)
class Simulated:
    """What came of a seed.

    ``violation``: the invariant that does not hold, or None. ``digest``: of all changes, in their order and
    at their times; a seed has the same one always.
    """

    seed: int
    violation: str | None
    happened: Mapping[Point, int]
    digest: str
    seconds: float


def simulate(seed: int, *, likely: Collection[Point] = ()) -> Simulated:
    """Simulate one seed; faults that are ``likely`` occur often in each."""
    with _quiet():
        loop = VirtualLoop()
        world = new_world(seed, loop, likely)
        with closing(loop), closing(world.judge), simulated(world):
            try:
                loop.run_until_complete(_live(world))
            except StalledError as error:
                world.judge.found(f"end: {error}")
            seconds = loop.time()
            _bury(world, loop)
        return Simulated(
            seed, world.judge.violation, dict(world.faults.happened), world.judge.digest, seconds
        )


async def _live(world: World) -> None:
    gateway = Gateway(world)
    clients = [Client(world, gateway, number) for number in range(CLIENTS)]
    around = [world.disturb(), gateway.keep_serving(), *(world.keep_working() for _ in range(WORKERS))]
    tasks = [asyncio.create_task(each) for each in around]
    using = asyncio.gather(*(client.use() for client in clients))
    while not using.done() and world.judge.violation is None:
        await asyncio.wait((using,), timeout=2.0)
        for task in tasks:
            if task.done():
                task.result()
        if world.loop.time() > FAULTS_FOR_SECONDS + ENDED_AFTER_SECONDS:
            world.judge.found("I6: some runs have not ended long after the last fault")
    if world.judge.violation is None:
        using.result()
        world.audit()


def _bury(world: World, loop: VirtualLoop) -> None:
    """End what still runs, so that nothing of this seed lives in the next one."""
    world.is_closing = True
    for process in world.processes:
        process.kill()
    while left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=1.0))


@contextmanager
def _quiet() -> Iterator[None]:
    # The product warns of every fault that it meets.
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
