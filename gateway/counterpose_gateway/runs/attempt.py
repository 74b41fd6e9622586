"""One attempt at the leased items of a group, which records exactly one outcome for each.

An item ends in one of three places. The method's main function records it as `done` or `filtered`, or as a
step dropped it (`keep`); a block under `fail_items_on_error` records the error of the items it names and goes
on; `finish_group` fails whatever is still open when the work ends. Steps know of none of this: they take open
items, or drafts of them, and return what they kept and dropped.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from counterpose_core.contract.runs import Provenance
from counterpose_core.errors import BackendUnavailable, Cancelled, CounterposeError, InternalError, LeaseLost
from counterpose_core.types import ItemKind
from counterpose_gateway.records.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.records.outcomes import Done, Failed, Filtered, Outcome
from counterpose_gateway.runs.calls import Calls, RunStoppedError
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class RunCancelledError(Exception):
    """Ends an attempt whose run is being cancelled."""


class OpenItems:
    """The items still open, and the calls that their work takes."""

    def __init__(self, group: LeasedGroup, services: Services, record: Recorder, store: Store) -> None:
        self.calls = Calls(services, store, self.proceed)
        self.is_last = all(item.attempt >= MAX_ATTEMPTS for item in group.items)
        self._record = record
        self._open = {item.id: item for item in group.items}
        self._ended: list[tuple[LeasedItem, Outcome]] = []

    @property
    def open(self) -> list[LeasedItem]:
        """Items without an outcome yet, in planned order."""
        return list(self._open.values())

    def of_kind(self, *kinds: ItemKind) -> list[LeasedItem]:
        """Return the open items of some kinds."""
        return [item for item in self._open.values() if item.kind in kinds]

    def is_open(self, item: LeasedItem) -> bool:
        """Return whether the item still has no outcome."""
        return item.id in self._open

    async def proceed(self) -> None:
        """Record what has ended so far, and poll between calls whether to go on.

        Raises:
            LeaseLost: another worker owns some of the items now.
            RunCancelledError: it is being cancelled; open items are left to the ledger.
        """
        await self.record()
        if await self._record.cancelled():
            raise RunCancelledError

    @asynccontextmanager
    async def fail_items_on_error(self, items: Sequence[LeasedItem]) -> AsyncIterator[None]:
        """Fail these items, and no others, if the block fails."""
        try:
            yield
        # Another worker holds the item now and records it; here it is not a failure.
        except LeaseLost:
            raise
        except CounterposeError as error:
            self.fail(items, error)

    def keep(self, parted: tuple[T, Drops]) -> T:
        """End what a step dropped, and return what it kept."""
        kept, drops = parted
        for item, why in drops.ended:
            if isinstance(why, Filtered):
                self._end(item, partial(self._filtered, why))
            else:
                self.fail([item], why)
        return kept

    async def record(self) -> None:
        """Make the outcomes so far durable, all in one transaction: before each call, and at the end.

        Raises:
            LeaseLost: another worker owns some of the items now.
        """
        ended, self._ended = self._ended, []
        if not ended:
            return
        try:
            await self._record.ended(ended)
        except LeaseLost:
            raise
        except CounterposeError as error:
            if error.retryable:
                # The ledger was away for longer than the recorder waits; whoever goes on records them.
                self._ended = ended + self._ended
                raise
            await self._record_alone(ended)

    async def done(self, item: LeasedItem, result: Provenance) -> None:
        """Take the item's result, to be recorded with others that end now."""
        self._end(item, lambda: Done(result=self.calls.booked(result)))

    async def filtered(
        self, item: LeasedItem, reason: str, detail: str = "", result: Provenance | None = None
    ) -> None:
        """Take why the item was dropped, to be recorded with others that end now."""
        self._end(item, partial(self._filtered, Filtered(reason=reason, detail=detail, result=result)))

    def fail(self, items: Iterable[LeasedItem], error: CounterposeError) -> None:
        """Take the failure of those of the items that are still open."""
        if isinstance(error, Cancelled):
            # A service that cancelled its work does not cancel ours: the item may be retried.
            error = BackendUnavailable(f"a service cancelled the call: {error.detail}")
        for item in items:
            self._end(item, lambda: _failed(error))

    def _filtered(self, why: Filtered) -> Filtered:
        return why if why.result is None else replace(why, result=self.calls.booked(why.result))

    def _end(self, item: LeasedItem, outcome: Callable[[], Outcome]) -> None:
        if self._open.pop(item.id, None) is not None:
            self._ended.append((item, outcome()))

    async def _record_alone(self, ended: Sequence[tuple[LeasedItem, Outcome]]) -> None:
        # The ledger cannot keep one of them, such as words that are too long: that fails this one alone.
        for item, outcome in ended:
            try:
                await self._record.ended([(item, outcome)])
            except LeaseLost:
                raise
            except CounterposeError as error:
                await self._record.ended([(item, _failed(error))])


def _failed(error: CounterposeError) -> Failed:
    return Failed(code=error.code, detail=error.detail, retryable=error.retryable)


async def finish_group(attempt: OpenItems, group: LeasedGroup, work: Awaitable[None]) -> None:
    """Await the work on a group, and make sure that each of its items then has one outcome.

    A call that fails as a whole fails the items that are still open. When the run is cancelled
    meanwhile, open items are left without outcome, for the ledger to cancel.

    Raises:
        LeaseLost: another worker owns the items now.
        RunStoppedError: the whole run must stop; open items are left to the ledger.
    """
    try:
        await work
    except RunCancelledError:
        return
    except (LeaseLost, RunStoppedError):
        raise
    except CounterposeError as error:
        attempt.fail(attempt.open, error)
    except Exception as error:  # a defect of ours must cost this group only, not the worker's run
        _logger.exception("group %s of run %s failed unexpectedly", group.item_group, group.run_id)
        attempt.fail(attempt.open, InternalError(f"unexpected {type(error).__name__}"))
    attempt.fail(attempt.open, InternalError("the method recorded no outcome for this item"))
    await attempt.record()
