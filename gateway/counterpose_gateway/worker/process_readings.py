"""Each process tells the ledger what it has counted, and each worker what it does; any gateway tells it on.

A process that is killed takes with it what it counted within the last ten seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from counterpose_core.errors import CounterposeError
from counterpose_gateway.records.measurements import WorkerReading
from counterpose_gateway.services.calls import CallCounts

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

TOLD_SECONDS = 10.0
T = TypeVar("T")

_logger = logging.getLogger(__name__)


class ProcessReadings:
    """Tells a ledger what one process counts; ``reading`` returns what its worker does, if it is one."""

    def __init__(
        self, ledger: Ledger, counts: CallCounts, reading: Callable[[], WorkerReading] | None = None
    ) -> None:
        self._ledger, self._counts, self._reading = ledger, counts, reading

    async def keep(self) -> None:
        """Tell it each ten seconds until cancelled, and then once more."""
        try:
            while True:
                await self.tell()
                await asyncio.sleep(TOLD_SECONDS)
        finally:
            await self.tell()
            if self._reading is not None:
                await self._told(self._ledger.measurements.forget_worker, self._reading().worker)

    async def tell(self) -> None:
        """Tell it now; what the ledger does not take is told with the next."""
        if self._reading is not None:
            calls = {service: number for service, number in self._counts.under_way.items() if number}
            await self._told(
                self._ledger.measurements.note_worker, self._reading().model_copy(update={"calls": calls})
            )
        counts = self._counts.taken()
        if counts and not await self._told(self._ledger.measurements.add_counts, counts):
            self._counts.put_back(counts)

    async def _told(self, tell: Callable[[T], None], what: T) -> bool:
        try:
            await asyncio.to_thread(tell, what)
        except CounterposeError as error:
            _logger.warning("the ledger was not told what is measured: %s", error.detail)
            return False
        return True
