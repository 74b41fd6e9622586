"""Workers' hands in processes of their own: they finish items, and say when each event was committed."""

from __future__ import annotations

import time

from counterpose_gateway.ledger import Ledger
from fakes.ledgers import done


def finish_items(url: str, run_id: str, pause: float, most: int) -> dict[int, float]:
    """Finish items one by one until none is left or ``most`` are; return by event when it was committed."""
    committed: dict[int, float] = {}
    ledger, finished = Ledger(url), 0
    newest = ledger.events.last(run_id).id
    while finished < most and (group := ledger.items.lease("hand", seconds=600.0, run_id=run_id)) is not None:
        for item in group.items:
            ledger.items.finish(item.id, item.fence, done())
            now = time.time()
            events = ledger.events.page(run_id, after=newest)
            committed |= {event.id: now for event in events}
            newest, finished = events[-1].id, finished + 1
            time.sleep(pause)
    ledger.close()
    return committed
