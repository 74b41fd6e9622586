"""Deletion that reaches everything: datasets at their end, blobs that nothing names, caches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from counterpose_core.blobs import BlobStore
from counterpose_core.content_address import digests_in_bytes
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, CounterposeError
from counterpose_gateway.records.sources import LEAVING_SECONDS

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

LOOK_SECONDS = 30.0
"""Between two looks: so much later than its end a dataset may still be seen."""

GRACE_SECONDS = LEAVING_SECONDS
"""What was put into the store by so long ago is named by a row, if ever: longer than an item takes."""

MOST = 5_000
"""Blobs that one look is about: each takes some 10 ms, for its folder is synced."""

_logger = logging.getLogger(__name__)


class Erasure:
    """Erases again and again; any number of gateways may do so at once.

    ``forget`` empties what this process keeps in memory of runs; it is called after one was deleted anywhere.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: BlobStore,
        forget: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] = time.time,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._ledger, self._store, self._forget = ledger, store, forget
        self._clock, self._grace = clock, grace_seconds
        self._last_deletion: float | None = None

    async def keep(self) -> None:
        """Go on until cancelled."""
        while True:
            begun = time.monotonic()
            try:
                await asyncio.to_thread(self.look)
            except (CounterposeError, OSError) as error:
                _logger.warning("what was deleted cannot be erased now; trying again: %s", error)
            # As long as it took, so that half of the disk's time is the others'.
            await asyncio.sleep(max(LOOK_SECONDS, time.monotonic() - begun))

    def look(self) -> int:
        """Delete what has ended, erase what is due, and return the number of blobs that went."""
        self._ledger.datasets.expire()
        self._ledger.datasets.go_on_deleting()
        deleted = self._ledger.blobs.last_deletion()
        if deleted != self._last_deletion:
            self._forget()
            self._last_deletion = deleted
        due = set(self._ledger.blobs.loose(before=self._clock() - self._grace, most=MOST))
        return self._erase(due) if due else 0

    def _erase(self, due: set[str]) -> int:
        noted_before, unused_since = self._clock() - self._grace, time.time() - self._grace
        settled = self._ledger.blobs.named(due) | (due & self._configured())
        erased = 0
        for digest in sorted(due - settled):
            if not self._ledger.blobs.is_loose(digest, before=noted_before):
                # A row that named it was deleted meanwhile: the look began before that row.
                continue
            orphans = self._store.erase(digest, unused_since=unused_since)
            if orphans is None:
                # It was put again: the row that names it may not be written yet.
                self._ledger.blobs.loosen({digest}, self._clock())
                continue
            self._ledger.blobs.loosen(orphans, noted_before)
            settled.add(digest)
            erased += 1
        self._ledger.blobs.settle(settled, before=noted_before)
        self._ledger.blobs.erased_from_log()
        _logger.info("%d of %d blobs that were named by deleted rows are erased", erased, len(due))
        return erased

    def _configured(self) -> set[str]:
        """Return what configurations name, themselves or in a list that they name."""
        found = self._ledger.blobs.configured()
        listed = set[str]()
        for digest in found:
            try:
                content = self._store.get(digest) if self._store.exists(digest) else b""
            except (ArtifactCorrupt, ArtifactMissing):
                continue
            listed |= digests_in_bytes(content)
        return found | listed
