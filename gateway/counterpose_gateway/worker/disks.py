"""The disks of store and ledger: a process that met a failure of one writes no more, and ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import DiskFailed

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

LOOK_SECONDS = 1.0


class _Server(Protocol):
    should_exit: bool


def require_disks(ledger: Ledger, store: BlobStore) -> None:
    """Check that neither disk has failed in this process.

    Raises:
        DiskFailed: one has. Its items keep their leases until these run out, and nothing more is recorded.
    """
    if (found := ledger.failure or store.failure) is not None:
        raise DiskFailed(found)


async def stop_with_disks(ledger: Ledger, store: BlobStore, server: _Server) -> None:
    """Let the server stop as soon as a disk has failed, so that a supervisor starts the process anew."""
    # Threads meet the failure, where no event of the loop is at hand.
    while ledger.failure is None and store.failure is None:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)
    server.should_exit = True
