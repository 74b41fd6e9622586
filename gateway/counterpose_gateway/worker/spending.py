"""The accounts of runs in the ledger, as a worker's calls keep them."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from contextvars import ContextVar
from typing import TYPE_CHECKING

from counterpose_core.backoff import Backoff
from counterpose_core.contract.spending import Spent
from counterpose_core.errors import BudgetSpent
from counterpose_gateway.records.spending import Lease, RoomHeldError
from counterpose_gateway.worker.shared_ledger import retry_ledger

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

ROOM_BACKOFF = Backoff(first_s=0.1, longest_s=5.0)
LEASE: ContextVar[Lease | None] = ContextVar("lease", default=None)
"""The lease under which this task works; a call without one is waited for until it is settled."""
_jitter = random.Random()


class LedgerAccounts:
    """Reserves and settles in the ledger, and waits for it while it is busy.

    ``patience_s``: how long a call waits for others that hold the room that it needs. A call
    whose lease has ended is not waited for, and counts at its most.
    """

    def __init__(self, ledger: Ledger, patience_s: float = 600.0) -> None:
        self._spending, self._patience_s = ledger.spending, patience_s

    async def reserve(self, run_id: str, service: str, most: Spent) -> str:
        """Take the most for spent, and return the id of the call; raises BudgetSpent without room."""

        def take(waits: bool) -> tuple[str, BudgetSpent | None]:
            # A new id each time: whether the last transaction was durable is not known.
            lease = LEASE.get()
            call = secrets.token_hex(16) if lease is None else lease.new_call()
            return call, self._spending.reserve(run_id, call, service, most, waits=waits)

        clock = asyncio.get_running_loop().time
        ends = clock() + self._patience_s
        for attempt in itertools.count(1):
            pause = ROOM_BACKOFF.pause(attempt, _jitter)
            try:
                call, refusal = await retry_ledger(take, clock() + pause < ends)
            except RoomHeldError:
                await asyncio.sleep(pause)
                continue
            if refusal is not None:
                raise refusal
            return call
        raise AssertionError  # pragma: no cover  # the loop has no end

    async def settle(self, run_id: str, call: str, spent: Spent) -> None:
        """Put what the call did cost in its place."""
        await retry_ledger(self._spending.settle, run_id, call, spent)
