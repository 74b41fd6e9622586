"""The worker: each of its loops leases an item group, runs the method on it and records outcomes.

A run that waits for its next stage comes first: a loop plans it. Datasets that are imported come in turn with
the runs' items.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import RequestCounts
from counterpose_core.errors import CounterposeError, DiskFailed, LedgerDamaged
from counterpose_core.kinds import unknown_kind
from counterpose_core.tracing import Tracing
from counterpose_gateway.imports.importer import Importer
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.items import LeasedGroup, LeasedItem
from counterpose_gateway.records.measurements import WorkerReading
from counterpose_gateway.records.outcomes import Ended, Outcome
from counterpose_gateway.records.spending import Lease
from counterpose_gateway.runs.calls import RunStoppedError
from counterpose_gateway.runs.renewal import keep_leased
from counterpose_gateway.services.calls import REMAINING, RUN, RemainingTimes
from counterpose_gateway.services.functions import with_functions
from counterpose_gateway.services.ports import Services
from counterpose_gateway.worker.concurrency import Concurrency
from counterpose_gateway.worker.disks import require_disks
from counterpose_gateway.worker.planner import Planner
from counterpose_gateway.worker.shared_ledger import SharedLedger, retry_ledger
from counterpose_gateway.worker.spending import LEASE

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

IDLE_SECONDS = 0.5
GROW_SECONDS = 1.0
"""How often the worker looks whether it may work on more groups."""
DRAIN_SECONDS = 20.0
UNKNOWN_SECONDS = 60.0
"""How often the worker looks for runs of a kind that it does not know."""
_LOOKS_REMEMBERED = 1000
"""Runs whose look is decided; one that is forgotten is looked at once more."""

_logger = logging.getLogger(__name__)


class LedgerRecorder:
    """Records outcomes of one leased group in the ledger; ``open`` are the ids of the items without one."""

    def __init__(self, ledger: SharedLedger, group: LeasedGroup, store: BlobStore) -> None:
        self._ledger = ledger
        self._store = store
        self._group = group
        self.open = {item.id for item in group.items}

    async def ended(self, outcomes: Sequence[tuple[LeasedItem, Outcome]]) -> None:
        """Record outcomes together; a retryable failure goes back to pending while attempts are left.

        Raises:
            DiskFailed: the disk of the store failed, so that what the outcomes name may not be on it.
        """
        if self._store.failure is not None:
            raise DiskFailed(self._store.failure)
        ended = [Ended(item_id=item.id, fence=item.fence, outcome=outcome) for item, outcome in outcomes]
        await self._ledger.record(ended)
        self.open -= {item.id for item, _ in outcomes}

    async def cancelled(self) -> bool:
        """Return whether the run is being cancelled."""
        return await self._ledger.cancelled(self._group.run_id)


class Worker:
    """Works on up to ``concurrency`` item groups at once, so that the services' batches fill.

    ``run_id``: the only run that it works on; None for every run. ``tracing``: makes the groups' spans.
    """

    def __init__(
        self,
        name: str,
        *,
        ledger: Ledger,
        store: BlobStore,
        services: Services,
        concurrency: int | Concurrency,
        lease_seconds: float,
        planner: Planner,
        importer: Importer | None = None,
        run_id: str | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._tracing = tracing or Tracing()
        self._ledger = ledger
        self._shared = SharedLedger(ledger, name, lease_seconds, run_id)
        self._store = store
        self._services = services
        self._concurrency = Concurrency(concurrency) if isinstance(concurrency, int) else concurrency
        self._lease_seconds = lease_seconds
        self._planner = planner
        self._importer = importer
        self._working = 0
        self._remaining = RemainingTimes(self._counts)
        self._looked_at: OrderedDict[str, None] = OrderedDict()
        self._idle = asyncio.Lock()

    async def work(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set; items that are not done in time are then returned to the ledger.

        An unexpected failure of one loop stops all, so that a supervisor notices; so does a disk's.
        """
        # One item group leaves a service's batch half empty; several at once fill it.
        beside = (self._concurrency.follow(stop, self._is_busy), self._name_unknown(stop))
        tasks = [asyncio.create_task(each) for each in beside]
        while not stop.is_set() and not any(task.done() for task in tasks):
            missing = range(len(tasks) - len(beside), self._concurrency.groups)
            tasks += [asyncio.create_task(self._serve_hand(number, stop)) for number in missing]
            await asyncio.wait(tasks, timeout=GROW_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        for task in tasks:
            await task

    async def work_off(self) -> None:
        """Work until nothing can be leased now."""
        while (work := await self._next_work()) is not None:
            await work
            require_disks(self._ledger, self._store)

    async def _serve_hand(self, number: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if number >= self._concurrency.groups:
                await _pause(stop)
            elif (work := await self._leased() or await self._awaited(number, stop)) is not None:
                self._working += 1
                try:
                    await self._until_drained(work, stop)
                finally:
                    self._working -= 1

    async def _awaited(self, number: int, stop: asyncio.Event) -> Coroutine[None, None, None] | None:
        """Return the next work, as soon as there is some; None if this hand shall work no more."""
        # One idle hand looks; when it has found something, the next one looks at once.
        async with self._idle:
            while not stop.is_set() and number < self._concurrency.groups:
                if (work := await self._leased()) is not None:
                    return work
                await _pause(stop)
        return None

    async def _leased(self) -> Coroutine[None, None, None] | None:
        require_disks(self._ledger, self._store)
        try:
            return await self._next_work()
        except (DiskFailed, LedgerDamaged):
            raise
        except CounterposeError as error:
            _logger.warning("nothing can be leased: %s", error.detail)
            return None

    async def _name_unknown(self, stop: asyncio.Event) -> None:
        """Say once of each run that it waits for a worker of another version."""
        said: set[str] = set()
        while not stop.is_set():
            try:
                found = await asyncio.to_thread(self._ledger.runs.of_unknown_kinds)
            except CounterposeError:
                # The loops that lease say what is wrong with the ledger.
                found = {}
            for run_id in found.keys() - said:
                _logger.warning("run %s waits for another worker: %s", run_id, unknown_kind(found[run_id]))
            said |= found.keys()
            await _pause(stop, UNKNOWN_SECONDS)

    def _is_busy(self) -> bool:
        return self._working > 0

    @property
    def reading(self) -> WorkerReading:
        """What the worker does now, without its calls."""
        return WorkerReading(
            worker=self._shared.name, groups=self._concurrency.groups, busy=self._working,
            occupancy=self._concurrency.occupancy if self._working else None,
        )  # fmt: skip

    async def _until_drained(self, work: Coroutine[None, None, None], stop: asyncio.Event) -> None:
        working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
        # Finishing an edit takes seconds and is cheaper than repeating it, so it gets some time.
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((working,), timeout=DRAIN_SECONDS if stop.is_set() else None)
        await _cancel(stopping, working)

    async def _next_work(self) -> Coroutine[None, None, None] | None:
        # Planning takes seconds; behind other runs' items it would wait for hours.
        if (stage := await self._planner.lease()) is not None:
            return self._planner.plan(stage)
        looks = [self._next_group, self._next_import]
        # In turn: with one hand, neither an import nor a run may wait for the end of the other.
        if self._importer is not None and self._importer.is_first:
            looks.reverse()
        for look in looks:
            if (work := await look()) is not None:
                return work
        return None

    async def _next_group(self) -> Coroutine[None, None, None] | None:
        group = await self._shared.lease()
        return None if group is None else self._process(group)

    async def _next_import(self) -> Coroutine[None, None, None] | None:
        leased = None if self._importer is None else await self._importer.lease()
        return None if leased is None or self._importer is None else self._importer.work(leased)

    async def _process(self, group: LeasedGroup) -> None:
        """Run the method while renewing the lease; the one that ends first ends the other."""
        record = LedgerRecorder(self._shared, group, self._store)
        # Tasks that this one starts inherit it, and the calls that they make.
        RUN.set(group.run_id)
        LEASE.set(Lease(self._shared.name, group.item_group))
        REMAINING.set(await asyncio.to_thread(self._remaining.of, group.run_id))
        with self._shared.holding(group):
            workflow = asyncio.create_task(self._run_workflow(group, record))
            renewal = asyncio.create_task(keep_leased(self._shared.renew, group, self._lease_seconds))
            try:
                await asyncio.wait((workflow, renewal), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _cancel(workflow, renewal)
                if record.open:
                    await self._release(group)

    async def _release(self, group: LeasedGroup) -> None:
        try:
            await self._shared.release(group)
        except CounterposeError as error:
            _logger.warning("the lease of group %s runs out by itself: %s", group.item_group, error.detail)

    async def _run_workflow(self, group: LeasedGroup, record: LedgerRecorder) -> None:
        try:
            method = METHODS[group.kind]
            request = group.config.get("request") or {}
            services = with_functions(self._services, group.functions, request.get("label_map") or {})
            with self._span(group):
                await method.process(group, services=services, record=record, store=self._store)
            await self._look(group)
        except RunStoppedError as stopped:
            why = type(stopped.why)(
                f"{stopped.why.detail}. The run was stopped and keeps what it has; serve the function again "
                "and resume the run."
            )
            await retry_ledger(self._ledger.runs.stop, group.run_id, why)
        except CounterposeError as error:
            _logger.warning("group %s of run %s: %s", group.item_group, group.run_id, error.detail)

    def _span(self, group: LeasedGroup) -> AbstractContextManager[None]:
        """Return the span of an attempt at a group, a child of the request that made the run."""
        told = {
            "counterpose.run": group.run_id,
            "counterpose.items": ",".join(item.id for item in group.items),
        }
        return self._tracing.span(f"{group.kind} items", parent=group.trace, attributes=told)

    def _counts(self, run_id: str) -> RequestCounts | None:
        try:
            glance = self._ledger.status.glance(run_id)
        except CounterposeError:
            return None
        return None if glance is None else glance.counts

    async def _look(self, group: LeasedGroup) -> None:
        """Let the method look at what the run has come to; the run stops if it finds a problem."""
        look = METHODS[group.kind].look
        if group.run_id in self._looked_at or look is None:
            return
        found = await retry_ledger(look, group, self._ledger)
        if found.problem is not None:
            await retry_ledger(self._ledger.runs.stop, group.run_id, found.problem)
        elif found.decided:
            self._looked_at[group.run_id] = None
            while len(self._looked_at) > _LOOKS_REMEMBERED:
                self._looked_at.popitem(last=False)


async def _pause(stop: asyncio.Event, seconds: float = IDLE_SECONDS) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            _logger.error("a task of the worker failed", exc_info=result)
