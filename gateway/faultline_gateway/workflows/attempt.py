"""One attempt at the leased items of a source: each leaves it by exactly one recorded outcome."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from faultline_core.contract.base import ModelIdentity, Outcome
from faultline_core.contract.runs import Provenance
from faultline_core.contract.stress_tests import StressTestConfig
from faultline_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    Cancelled,
    FaultlineError,
    InternalError,
    LeaseLost,
)
from faultline_core.types import Cost, EditType, ItemKind
from faultline_gateway.work_items import LeasedGroup, LeasedItem, Recorder

_logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


async def together(calls: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Run independent calls at once; wait for all of them, then raise the first failure if any."""
    # All are waited for: a call left running would write into an attempt that is over.
    answers = await asyncio.gather(*calls, return_exceptions=True)
    results: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        results.append(answer)
    return results


def borne_alone(cost: Cost) -> Cost:
    """An item's own part of a cost: calls and waits it shares with others are booked with the response."""
    return cost.model_copy(update={"unet_calls": 0, "host_syncs": 0})


class Store(Protocol):
    """Where pictures lie; `faultline_core.blobs.BlobStore` is one.

    decode_image(store.get(result.image))
    """

    def get(self, ref: str) -> bytes:
        """Return the verified bytes named ``ref``."""
        ...


class RunCancelledError(Exception):
    """The way out of an attempt whose run is being cancelled."""


class _Batch(Protocol[T]):
    @property
    def outcomes(self) -> Sequence[Outcome[T]]: ...
    @property
    def model(self) -> ModelIdentity: ...


class OpenItems:
    """The items still open, where their pictures lie, what their calls took, and which weights answered."""

    def __init__(self, group: LeasedGroup, record: Recorder, store: Store) -> None:
        self.store = store
        self.models: dict[str, str] = {}
        self._record = record
        self._open = {item.id: item for item in group.items}
        self._seconds: dict[str, float] = {}
        self._shared_cost = Cost()

    @property
    def open(self) -> list[LeasedItem]:
        """Items without an outcome yet, in planned order."""
        return list(self._open.values())

    def is_open(self, item: LeasedItem) -> bool:
        """Tell whether the item is still without an outcome."""
        return item.id in self._open

    async def proceed(self) -> None:
        """Poll between calls whether to go on.

        Raises:
            RunCancelledError: it is being cancelled; open items are left to the ledger.
        """
        if await self._record.cancelled():
            raise RunCancelledError

    async def call(self, service: str, method: Callable[[R], Awaitable[T]], request: R) -> T:
        """Call a service unless the run is being cancelled, and book its seconds."""
        await self.proceed()
        start = time.perf_counter()
        try:
            return await method(request)
        finally:
            # A call that failed took its seconds too.
            self._seconds[service] = self._seconds.get(service, 0.0) + time.perf_counter() - start

    def outcomes(self, name: str, response: _Batch[T], expected: int) -> list[Outcome[T]]:
        """The outcomes of a call under ``name``, after counting them.

        Raises:
            BadBackendOutput: fewer or more than were asked for.
        """
        if len(response.outcomes) != expected:
            raise BadBackendOutput(
                f"{name!r} answered {len(response.outcomes)} outcomes for {expected} items"
            )
        self.models[name] = f"{response.model.id}@{response.model.revision}"
        return list(response.outcomes)

    def share(self, total: Cost, own: Iterable[Cost] = ()) -> None:
        """Book what a call took beyond what its items bear alone."""
        borne = sum(map(borne_alone, own), Cost()).model_dump()
        # Never below zero: a service that rounds its total down would make another's cost vanish.
        rest = {name: max(0, value - borne[name]) for name, value in total.model_dump().items()}
        self._shared_cost += Cost.model_validate(rest)

    @asynccontextmanager
    async def blaming(self, items: Sequence[LeasedItem]) -> AsyncIterator[None]:
        """Let a failure inside fail these items and no others."""
        try:
            yield
        # Whoever holds the item now records it; to us it is no failure.
        except LeaseLost:
            raise
        except FaultlineError as error:
            await self.fail(items, error)

    async def done(self, item: LeasedItem, result: Provenance) -> None:
        """Record what the item made."""
        if item.id in self._open:
            await self._record.done(item, self._booked(result))
            del self._open[item.id]

    async def filtered(
        self, item: LeasedItem, reason: str, detail: str = "", result: Provenance | None = None
    ) -> None:
        """Record why the item was dropped."""
        if item.id in self._open:
            booked = None if result is None else self._booked(result)
            await self._record.filtered(item, reason, detail, booked)
            del self._open[item.id]

    async def fail(self, items: Iterable[LeasedItem], error: FaultlineError) -> None:
        """Record the failure of those of the items that are still open."""
        if isinstance(error, Cancelled):
            # A service that gave up its work is no reason to give up ours: the item may be tried again.
            error = BackendUnavailable(f"a service cancelled the call: {error.detail}")
        for item in items:
            if item.id in self._open:
                await self._record.failed(item, error)
                del self._open[item.id]

    def _booked(self, result: Provenance) -> Provenance:
        booked = result.model_copy(
            update={
                "cost": result.cost + self._shared_cost,
                "service_seconds": dict(self._seconds),
                "models": dict(self.models),
            }
        )
        # Booked once, on the first item with a result: sums over items stay exact.
        self._shared_cost, self._seconds = Cost(), {}
        return booked


async def settle(attempt: OpenItems, group: LeasedGroup, work: Awaitable[None]) -> None:
    """Await the work on a group, and see that each of its items has one outcome after it.

    A call that fails as a whole fails the items that are still open. When the run is cancelled
    meanwhile, open items are left without outcome, for the ledger to cancel.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    try:
        await work
    except RunCancelledError:
        return
    except LeaseLost:
        raise
    except FaultlineError as error:
        await attempt.fail(attempt.open, error)
    except Exception as error:  # a defect of ours must cost this group only, not the worker's run
        _logger.exception("source %s of run %s failed unexpectedly", group.source_id, group.run_id)
        await attempt.fail(attempt.open, InternalError(f"unexpected {type(error).__name__}"))
    await attempt.fail(attempt.open, InternalError("the workflow gave this item no outcome"))


class Attempt(OpenItems):
    """One attempt at the items of a source in a stress test."""

    def __init__(self, group: LeasedGroup, config: StressTestConfig, record: Recorder, store: Store) -> None:
        super().__init__(group, record, store)
        self.config = config

    def one(self, kind: ItemKind) -> LeasedItem | None:
        """The open item of a kind that each source has once."""
        return next((item for item in self.open if item.kind == kind), None)

    def edits(self, edit_type: EditType | None, slot: int) -> list[LeasedItem]:
        """The open item of an edit slot (None: the placebo), or nothing where it is not ours."""
        kind: ItemKind = "placebo" if edit_type is None else "edit"
        wanted = (kind, edit_type, slot)
        return [item for item in self.open if (item.kind, item.edit_type, item.slot) == wanted]
