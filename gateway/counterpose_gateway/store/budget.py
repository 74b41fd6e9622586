"""The budget of the store, kept by the gateway: what can be computed again is evicted, oldest use first."""

from __future__ import annotations

import asyncio
import logging
import time

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.services import StoreUse
from counterpose_core.eviction import RECENT_SECONDS, evict

LOOK_SECONDS = 15.0
"""Between two looks; so long, a busy editor keeps some ten inversions of 15 MB."""

_SHARE = 20
"""A look may take at most one in so many of the seconds: one at a million files takes some seconds."""

_logger = logging.getLogger(__name__)


class StoreBudget:
    """Looks at the store again and again, evicts what exceeds the budget, and knows what it found.

    keeping = asyncio.create_task(StoreBudget(store, 50_000_000_000).keep())
    """

    def __init__(
        self, store: BlobStore, budget: int | None, *, recent_seconds: float = RECENT_SECONDS
    ) -> None:
        self._folder = store.derived
        self._recent_seconds = recent_seconds
        self._use = StoreUse(budget_bytes=budget)
        if self._folder is None and budget is not None:
            _logger.warning(
                "COUNTERPOSE_STORE_BUDGET_BYTES is not applied: %r is not on a local disk; let the rules of "
                "that store expire what lies under derived/",
                store.root,
            )

    @property
    def use(self) -> StoreUse | None:
        """What the last look found; None for a store that is not on a local disk."""
        return None if self._folder is None else self._use

    async def keep(self) -> None:
        """Go on until cancelled."""
        while self._folder is not None:
            begun = time.monotonic()
            try:
                await asyncio.to_thread(self.look)
            except OSError:
                _logger.exception("the store's budget cannot be kept now; trying again")
            await asyncio.sleep(max(LOOK_SECONDS, _SHARE * (time.monotonic() - begun)))

    def look(self) -> None:
        """Look once, and evict what exceeds the budget."""
        if self._folder is None:
            return
        found = evict(self._folder, self._use.budget_bytes, recent_seconds=self._recent_seconds)
        self._use = self._use.model_copy(
            update={
                "derived_bytes": found.left_bytes,
                "evictions": self._use.evictions + found.files,
                "evicted_bytes": self._use.evicted_bytes + found.bytes,
            }
        )
