"""Follow runs as the gateway does, in one call."""

from __future__ import annotations

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.progress.following import FollowedRuns, wait_for_end
from counterpose_gateway.progress.status import RunStatus, StatusText


async def waited_for(ledger: Ledger, run_id: str, seconds: float) -> StatusText:
    """Return the run when it has ended, or its current state after ``seconds``."""
    return await wait_for_end(FollowedRuns(ledger.events), RunStatus(ledger), run_id, seconds)


def sent_fields(sent: bytes) -> list[dict[str, str]]:
    """Return the fields of each event of a piece of a stream."""
    events = sent.decode().removesuffix("\r\n\r\n").split("\r\n\r\n")
    return [dict(line.split(": ", 1) for line in event.split("\r\n")) for event in events]
