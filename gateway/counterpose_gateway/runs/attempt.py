"""One attempt at the leased items of a group, which records exactly one outcome for each.

An item ends in one of three places. A step records it as `done` or `filtered` and it is no longer open; a
block under `fail_items_on_error` records the error of the items it names and goes on; `finish_group` fails
whatever is still open when the work ends. Later steps work on `OpenItems.open`: they never see an item twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.base import Outcome as Answer
from counterpose_core.contract.runs import Provenance
from counterpose_core.errors import (
    BackendUnavailable,
    Cancelled,
    CounterposeError,
    DeadlineExceeded,
    FunctionGone,
    InternalError,
    LeaseLost,
)
from counterpose_core.types import Cost
from counterpose_gateway.records.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.records.outcomes import Done, Failed, Filtered, Outcome
from counterpose_gateway.runs.stores import Store

_logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


async def together(calls: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Run independent calls concurrently; wait for all of them, then raise the first failure if any."""
    # Waits for all: a call left running would write into an attempt that has ended.
    answers = await asyncio.gather(*calls, return_exceptions=True)
    results: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        results.append(answer)
    return results


def own_cost(cost: Cost) -> Cost:
    """An item's own part of a cost: calls and waits it shares with others are booked with the response."""
    return cost.model_copy(update={"unet_calls": 0, "host_syncs": 0})


class RunCancelledError(Exception):
    """Ends an attempt whose run is being cancelled."""


class RunStoppedError(Exception):
    """Ends an attempt whose whole run must stop: ``why`` would fail each of its further items."""

    def __init__(self, why: CounterposeError) -> None:
        super().__init__(why.detail)
        self.why = why


class _Batch(Protocol[T]):
    @property
    def outcomes(self) -> Sequence[Answer[T]]: ...
    @property
    def model(self) -> ModelIdentity: ...


class OpenItems:
    """The items still open, the store of their images, and the cost and weights of their calls."""

    def __init__(self, group: LeasedGroup, record: Recorder, store: Store) -> None:
        self.store = store
        self.models: dict[str, str] = {}
        self._record = record
        self._open = {item.id: item for item in group.items}
        self._ended: list[tuple[LeasedItem, Outcome]] = []
        self._seconds: dict[str, float] = {}
        self._shared_cost = Cost()

    @property
    def open(self) -> list[LeasedItem]:
        """Items without an outcome yet, in planned order."""
        return list(self._open.values())

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

    async def call(self, service: str, method: Callable[[R], Awaitable[T]], request: R) -> T:
        """Call a service unless the run is being cancelled, and book its seconds.

        Raises:
            RunStoppedError: the program that serves one of the run's classifiers has ended.
        """
        await self.proceed()
        start = time.perf_counter()
        try:
            return await method(request)
        except FunctionGone as gone:
            raise RunStoppedError(gone) from gone
        finally:
            # A failed call takes seconds too.
            self._seconds[service] = self._seconds.get(service, 0.0) + time.perf_counter() - start

    def outcomes(self, name: str, response: _Batch[T]) -> list[Answer[T]]:
        """Return a call's outcomes, and record under ``name`` which weights answered."""
        self.models[name] = f"{response.model.id}@{response.model.revision}"
        return list(response.outcomes)

    def add_shared_cost(self, total: Cost, own: Iterable[Cost] = ()) -> None:
        """Add the cost of a call that is not the cost of one of its items."""
        borne = sum(map(own_cost, own), Cost()).model_dump()
        # Never below zero: a service that rounds its total down would reduce another's cost.
        rest = {name: max(0, value - borne[name]) for name, value in total.model_dump().items()}
        self._shared_cost += Cost.model_validate(rest)

    @asynccontextmanager
    async def fail_items_on_error(self, items: Sequence[LeasedItem]) -> AsyncIterator[None]:
        """Fail these items, and no others, if the block fails."""
        try:
            yield
        # Another worker holds the item now and records it; here it is not a failure.
        except LeaseLost:
            raise
        except CounterposeError as error:
            await self.fail(items, error)

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
        self._end(item, lambda: Done(result=self._booked(result)))

    async def filtered(
        self, item: LeasedItem, reason: str, detail: str = "", result: Provenance | None = None
    ) -> None:
        """Take why the item was dropped, to be recorded with others that end now."""

        def outcome() -> Filtered:
            booked = None if result is None else self._booked(result)
            return Filtered(reason=reason, detail=detail, result=booked)

        self._end(item, outcome)

    async def fail(self, items: Iterable[LeasedItem], error: CounterposeError) -> None:
        """Take the failure of those of the items that are still open."""
        if isinstance(error, Cancelled):
            # A service that cancelled its work does not cancel ours: the item may be retried.
            error = BackendUnavailable(f"a service cancelled the call: {error.detail}")
        for item in items:
            self._end(item, lambda: _failed(error))

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

    def _booked(self, result: Provenance) -> Provenance:
        booked = result.model_copy(
            update={
                "cost": result.cost + self._shared_cost,
                "service_seconds": dict(self._seconds),
                "models": dict(self.models),
            }
        )
        # Added once, to the first item with a result, so that sums over items stay exact.
        self._shared_cost, self._seconds = Cost(), {}
        return booked


def _failed(error: CounterposeError) -> Failed:
    return Failed(code=error.code, detail=error.detail, retryable=error.retryable)


async def repeated(call: Callable[[], Awaitable[R]]) -> R:
    """Make a call again that missed its deadline, as often as an item is tried.

    For calls whose failure fails no item: what they measure would be missing for good, and a run whose
    network halted for a while would have other results than one that was not disturbed.

    Raises:
        CounterposeError: the error of the last try, or one that another try would not mend.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(DeadlineExceeded):
            return await call()
    return await call()


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
        await attempt.fail(attempt.open, error)
    except Exception as error:  # a defect of ours must cost this group only, not the worker's run
        _logger.exception("group %s of run %s failed unexpectedly", group.item_group, group.run_id)
        await attempt.fail(attempt.open, InternalError(f"unexpected {type(error).__name__}"))
    await attempt.fail(attempt.open, InternalError("the method recorded no outcome for this item"))
    await attempt.record()
