"""Whose the store is: the ledger that writes to it leaves its mark, and another one is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from counterpose_core.blobs import BlobStore, Mark
from counterpose_core.errors import CounterposeError, LedgerMismatch

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

MARK_SECONDS = 50.0
"""Between two marks: an older copy of the ledger shows if it lacks what is older than a minute."""

_REMEDY = (
    "name the two that belong together (COUNTERPOSE_DATABASE_URL, COUNTERPOSE_STORE_URL), restore the "
    "ledger's newest backup, or start once with --accept-ledger (COUNTERPOSE_ACCEPT_LEDGER=true) to let the "
    "store belong to this ledger from now on"
)

_logger = logging.getLogger(__name__)


class Ownership:
    """Holds a store for a ledger, in any number of processes at once.

    ownership = Ownership(ledger, store)
    ownership.require()
    async with ownership.kept():
        await serve()
    """

    def __init__(self, ledger: Ledger, store: BlobStore) -> None:
        self._ledger, self._store = ledger, store
        self._left: Mark | None = None

    def require(self, *, accept: bool = False) -> None:
        """Check that a store with blobs is the ledger's, and mark it; `accept` takes over one that is not.

        Raises:
            LedgerMismatch: the ledger is empty, another one, or older than the store knows it.
            StorageError: a store that is to be taken over cannot be written.
        """
        own, marks = self._ledger.identity.mark(), self._store.marks()
        finding = self._finding(own, marks)
        if not marks and self._store.has_blobs and self._ledger.identity.is_empty():
            # Services that were tried before the first gateway started leave images, and no mark.
            _logger.warning("the store %r has images, and belongs to no ledger yet", self._store.root)
        if finding is not None and self._store.has_blobs:
            if not accept:
                raise LedgerMismatch(f"{finding}; {_REMEDY}")
            _logger.warning("%s; as --accept-ledger asks, the store belongs to this ledger now", finding)
            self._mark(own)
        else:
            # A full disk is told by `/readyz`; what is stored can be read all the same.
            self._try_to_mark()
        for mark in marks:
            if self._left is not None and mark != self._left:
                self._store.unmark(mark)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Mark the store again and again beside the block, and at its end."""
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            self._try_to_mark()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(MARK_SECONDS)
            await asyncio.to_thread(self._try_to_mark)

    def _try_to_mark(self) -> None:
        try:
            self._mark(self._ledger.identity.mark())
        except (CounterposeError, OSError) as error:
            _logger.warning("the store cannot be marked as this ledger's now: %s", error)

    def _mark(self, own: Mark) -> None:
        if own != self._left:
            self._store.mark(own, instead_of=self._left)
            self._left = own

    def _finding(self, own: Mark, marks: Sequence[Mark]) -> str | None:
        """Say why the store may not be the ledger's."""
        last = max((mark.event for mark in marks if mark.ledger == own.ledger), default=0)
        other = next((mark for mark in marks if mark.ledger != own.ledger), None)
        root = repr(self._store.root)
        if other is not None:
            this = "this ledger is empty" if self._ledger.identity.is_empty() else f"this is {own.ledger}"
            return f"the store {root} belongs to the ledger {other.ledger} (last event {other.event}); {this}"
        if last > own.event:
            return f"this ledger ends with event {own.event}; the store {root} knows it up to event {last}"
        return None
