"""``python -m fakes.plain_loop URL STORE RUN OUT``: the items of a run as a script works them off.

It takes image after image, keeps what comes of each in memory and writes all of it at the end, as scripts of
evaluation do. On standard output it says how many items have come to an end.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.records.outcomes import Outcome
from counterpose_gateway.services.clients import calling_services, services_of
from counterpose_gateway.settings import settings_of_process

FOREVER = 1e6


class InMemory:
    """A method's recorder that keeps outcomes until the program ends."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def ended(self, outcomes: Sequence[tuple[LeasedItem, Outcome]]) -> None:
        """Keep them, and say how many there are."""
        self.kept += [item.item_key for item, _ in outcomes]
        sys.stdout.write(f"{len(self.kept)}\n")
        sys.stdout.flush()

    async def cancelled(self) -> bool:
        """Nobody cancels a script."""
        return False


async def work(url: str, store_url: str, run_id: str) -> list[str]:
    """Work off the run and return what was kept; the ledger says what its items are, and is told nothing."""
    ledger, store, record = Ledger(url), BlobStore(store_url), InMemory()
    async with calling_services(settings_of_process()) as caller:
        while (group := ledger.items.lease("loop", seconds=FOREVER, run_id=run_id)) is not None:
            method = METHODS[group.kind]
            await method.process(group, services=services_of(caller), record=record, store=store)
    ledger.close()
    return record.kept


if __name__ == "__main__":
    done = asyncio.run(work(*sys.argv[1:4]))
    Path(sys.argv[4]).write_text(json.dumps(done), encoding="utf-8")
