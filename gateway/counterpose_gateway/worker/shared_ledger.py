"""The ledger as the hands of one worker share it: what they want at the same time is one transaction.

Every lease, renewal and record of a run locks the run's row until its commit is on the disk. Sixty hands that
each wait for that row get on no faster than one; sixty hands whose wishes are combined get on sixty times as
fast, and a hand that is alone waits for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from counterpose_core.backoff import Backoff
from counterpose_core.errors import BackendUnavailable, CounterposeError, LeaseLost, StorageFull
from counterpose_gateway.records.items import LeasedGroup, no_lease_left
from counterpose_gateway.records.outcomes import Ended, lease_lost, run_of
from counterpose_gateway.runs.renewal import renewed_every
from counterpose_gateway.worker.combining import Combining

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

P = ParamSpec("P")
R = TypeVar("R")

LEDGER_TRIES = 5
LEDGER_BACKOFF = Backoff(first_s=0.75, longest_s=12.0)
"""12 to 23 s over the five pauses: longer than SQLite's own wait for its lock, and than a short restart."""
GROUPS_AT_ONCE = 16
"""Groups that one transaction leases or records: with eight items each it locks the run for some 50 ms."""
CANCEL_SECONDS = 1.0
"""How old an answer may be to whether a run is being cancelled; a renewal finds out after five seconds."""
_RUNS_REMEMBERED = 1000

_logger = logging.getLogger(__name__)
_jitter = random.Random()


async def retry_ledger(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the ledger in a thread, and retry while it is busy or full: an outcome must not be lost."""
    for attempt in range(1, LEDGER_TRIES + 1):
        try:
            return await asyncio.to_thread(call, *args, **kwargs)
        except (BackendUnavailable, StorageFull) as error:
            _logger.warning("the ledger is not at hand: %s", error.detail)
            await asyncio.sleep(LEDGER_BACKOFF.pause(attempt, _jitter))
    return await asyncio.to_thread(call, *args, **kwargs)


class SharedLedger:
    """Leases, renews and records for all hands of the worker ``name``.

    ``run_id``: the only run that is leased from; None for every run.
    """

    def __init__(self, ledger: Ledger, name: str, lease_seconds: float, run_id: str | None = None) -> None:
        self._ledger = ledger
        self.name = name
        self._lease_seconds = lease_seconds
        self._run_id = run_id
        self._leases = Combining[None, LeasedGroup | None](
            self._lease_some, most=GROUPS_AT_ONCE, unclaimed=self._give_back
        )
        self._runs: dict[str, _SharedRun] = {}

    async def lease(self) -> LeasedGroup | None:
        """Lease the next group of any run, or None if nothing is ready."""
        return await self._leases.ask(None)

    async def record(self, ended: Sequence[Ended]) -> None:
        """Record outcomes of items of one run.

        Raises:
            LeaseLost: some of these items were leased again, cancelled or recorded since.
        """
        if ended:
            await self._run(run_of(ended[0])).records.ask(ended)

    async def renew(self, group: LeasedGroup, seconds: float) -> None:
        """Renew a group's leases, and those of all groups of its run that the worker holds.

        Raises:
            LeaseLost: none is left.
        """
        await self._run(group.run_id).renew(group, seconds)

    async def cancelled(self, run_id: str) -> bool:
        """Return whether the run was being cancelled within the last second."""
        return await self._run(run_id).cancelled()

    @contextlib.contextmanager
    def holding(self, group: LeasedGroup) -> Iterator[None]:
        """Renew the group with others of its run during the block."""
        run = self._run(group.run_id)
        run.held[id(group)] = group
        try:
            yield
        finally:
            run.forget(group)

    async def release(self, group: LeasedGroup) -> None:
        """Return the items that are still leased."""
        await asyncio.to_thread(self._ledger.items.release, group)

    def _run(self, run_id: str) -> _SharedRun:
        # In the order of their use: a run that is worked on is never forgotten.
        run = self._runs.pop(run_id, None) or _SharedRun(self._ledger, run_id)
        self._runs[run_id] = run
        if len(self._runs) > _RUNS_REMEMBERED:
            idle = next((name for name, each in self._runs.items() if not each.held and name != run_id), None)
            if idle is not None:
                del self._runs[idle]
        return run

    async def _lease_some(self, hands: Sequence[None]) -> Sequence[LeasedGroup | None]:
        groups = await asyncio.to_thread(
            self._ledger.items.lease_many,
            self.name,
            seconds=self._lease_seconds,
            most=len(hands),
            run_id=self._run_id,
        )
        return [*groups, *(None for _ in range(len(hands) - len(groups)))]

    async def _give_back(self, group: LeasedGroup | None) -> None:
        if group is not None:
            with contextlib.suppress(CounterposeError):
                await self.release(group)


class _SharedRun:
    """One run's records, renewals, and whether it is being cancelled."""

    def __init__(self, ledger: Ledger, run_id: str) -> None:
        self._ledger = ledger
        self._run_id = run_id
        self.held: dict[int, LeasedGroup] = {}
        self._renewed: dict[int, float] = {}
        self._looked: tuple[float, bool] | None = None
        self.records = Combining[Sequence[Ended], None](self._record, most=GROUPS_AT_ONCE)
        self._renewals = Combining[tuple[LeasedGroup, float], None](self._renew, most=1_000)
        self._looks = Combining[None, bool](self._look, most=1_000)

    def forget(self, group: LeasedGroup) -> None:
        """The group is not held any more."""
        self.held.pop(id(group), None)
        self._renewed.pop(id(group), None)

    async def renew(self, group: LeasedGroup, seconds: float) -> None:
        """Renew the group, unless another group's renewal has just done so."""
        age = asyncio.get_running_loop().time() - self._renewed.get(id(group), 0.0)
        if age > renewed_every(seconds) / 2:
            await self._renewals.ask((group, seconds))

    async def cancelled(self) -> bool:
        """Return whether the run was being cancelled within the last second."""
        if self._looked is not None and asyncio.get_running_loop().time() < self._looked[0] + CANCEL_SECONDS:
            return self._looked[1]
        return await self._looks.ask(None)

    async def _look(self, askers: Sequence[None]) -> Sequence[bool]:
        found = await retry_ledger(self._ledger.runs.cancelled, self._run_id)
        self._looked = (asyncio.get_running_loop().time(), found)
        return [found] * len(askers)

    async def _record(self, calls: Sequence[Sequence[Ended]]) -> Sequence[BaseException | None]:
        try:
            lost = await retry_ledger(
                self._ledger.items.record_many, [each for call in calls for each in call]
            )
        except CounterposeError as error:
            if error.retryable or len(calls) == 1:
                raise
            # The ledger cannot keep an outcome of one of them: the others are recorded all the same.
            return [await self._recorded_alone(call) for call in calls]
        return [_lost_of(call, lost) for call in calls]

    async def _recorded_alone(self, call: Sequence[Ended]) -> BaseException | None:
        try:
            return _lost_of(call, await retry_ledger(self._ledger.items.record_many, call))
        except CounterposeError as error:
            return error

    async def _renew(self, asked: Sequence[tuple[LeasedGroup, float]]) -> Sequence[BaseException | None]:
        groups = {id(group): group for group, _ in asked} | self.held
        seconds = max(each for _, each in asked)
        kept = await asyncio.to_thread(self._ledger.items.renew_many, list(groups.values()), seconds)
        now, left = asyncio.get_running_loop().time(), set(kept)
        for key, group in groups.items():
            # A group without a lease asks for itself, and is told.
            if key in self.held and not left.isdisjoint(item.id for item in group.items):
                self._renewed[key] = now
        return [
            None if not left.isdisjoint(item.id for item in group.items) else no_lease_left(group)
            for group, _ in asked
        ]


def _lost_of(call: Sequence[Ended], lost: Sequence[Ended]) -> LeaseLost | None:
    # By identity: an outcome may be recorded twice, by two calls that are equal.
    mine = {id(each) for each in call}
    found = [each for each in lost if id(each) in mine]
    return lease_lost(found) if found else None
