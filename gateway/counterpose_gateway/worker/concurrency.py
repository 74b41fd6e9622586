"""How many item groups a worker processes at once: as many as keep the services' replicas busy."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Protocol

from counterpose_core.contract.services import ServiceState

CALLS_PER_REPLICA = 2
"""One call runs and one waits. A group makes one call at a time, mostly to the editor."""
LEAST, MOST = 4, 256
PERIOD_SECONDS, IDLE_SECONDS = 30.0, 1.0


class Health(Protocol):
    """Whatever asks the services for their states."""

    async def services(self) -> list[ServiceState]: ...


class Concurrency:
    """The number of item groups at once: fixed, or as many as the services' replicas can take.

    Replicas that a service may add count as well: only work that waits makes it add them. ``sharing``: how
    many workers share the replicas; each then processes its part of the groups, and at least one.
    """

    def __init__(self, fixed: int | None = None, health: Health | None = None, sharing: int = 1) -> None:
        self._fixed, self._health, self._sharing = fixed, health, sharing
        self._least = LEAST if sharing == 1 else 1
        self.groups = LEAST if fixed is None else fixed
        self.occupancy: float | None = None
        """The share of the editor's rows that are used, as a replica said last; None if none said it."""

    async def follow(self, stop: asyncio.Event, busy: Callable[[], bool]) -> None:
        """Ask the services every half minute, while there is work, until ``stop`` is set.

        Without work nobody asks: a service without replicas would start one for the answer.
        """
        while not stop.is_set():
            pause = IDLE_SECONDS
            if busy():
                await self.ask()
                pause = PERIOD_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)

    async def ask(self) -> None:
        """Ask the services once; those that do not answer leave the number as it is."""
        if self._health is None:
            return
        states = [state for state in await self._health.services() if state.in_suite]
        self.occupancy = next((state.occupancy for state in states if state.occupancy is not None), None)
        replicas = [state.replicas for state in states if state.replicas is not None]
        if self._fixed is None and len(replicas) == len(states):
            share = math.ceil(CALLS_PER_REPLICA * sum(replicas) / self._sharing)
            self.groups = min(MOST, max(self._least, share))
