"""The planner: leases runs that wait for their next stage and plans it, while the lease is renewed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from counterpose_core.errors import CounterposeError, InternalError, LeaseLost
from counterpose_gateway.records.items import LeasedStage
from counterpose_gateway.runs.large_plans import Blobs, PlanInputs, store_plan
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.runs.renewal import keep_leased
from counterpose_gateway.runs.stages import plan_stage

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

_logger = logging.getLogger(__name__)


class Planner:
    """Plans stages of runs of those ``methods`` that have stages, and the rest of large first stages.

    ``run_id``: the only run to plan; None for every run.
    """

    def __init__(
        self,
        ledger: Ledger,
        methods: Mapping[str, AnyMethod],
        *,
        lease_seconds: float,
        most_items: int,
        store: Blobs | None = None,
        run_id: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._methods = methods
        self._staged = [kind for kind, method in methods.items() if method.next_stage is not None]
        self._large = [kind for kind, method in methods.items() if method.rest_of_plan is not None]
        self._lease_seconds = lease_seconds
        self._most_items = most_items
        self._store = store
        self._run_id = run_id
        self._fills = False

    async def lease(self) -> LeasedStage | None:
        """Lease the planning of a run's next stage, if one waits; call `plan` next."""
        # One large plan at a time: it takes minutes, and all others must not wait for it.
        first_of = () if self._fills else self._large
        # Without such methods the ledger is not asked: an idle worker looks twice a second.
        if not self._staged and not first_of:
            return None
        leased = await asyncio.to_thread(
            self._ledger.stages.lease,
            self._staged,
            seconds=self._lease_seconds,
            first_of=first_of,
            run_id=self._run_id,
        )
        self._fills = self._fills or (leased is not None and leased.stage == 1)
        return leased

    async def plan(self, leased: LeasedStage) -> None:
        """Plan the leased stage; after a cancellation the thread stops at its next chunk."""
        renewal = asyncio.create_task(keep_leased(self._renew, leased, self._lease_seconds))
        try:
            await asyncio.to_thread(self._plan, leased)
        finally:
            renewal.cancel()
            self._fills = self._fills and leased.stage > 1
            await asyncio.to_thread(self._release, leased)

    async def _renew(self, leased: LeasedStage, seconds: float) -> None:
        await asyncio.to_thread(self._ledger.stages.renew, leased, seconds)

    def _plan(self, leased: LeasedStage) -> None:
        try:
            if leased.stage == 1:
                self._store_rest(leased)
            else:
                self._plan_next(leased)
        except LeaseLost as error:
            _logger.info("%s", error.detail)
        except CounterposeError as error:
            self._fail(leased, error)
        # The method's own code runs here: a defect in it must end its run, not the worker.
        except Exception as error:
            _logger.exception("stage %d of run %s could not be planned", leased.stage, leased.run_id)
            self._fail(leased, InternalError(f"unexpected {type(error).__name__}"))

    def _store_rest(self, leased: LeasedStage) -> None:
        assert self._store is not None  # who gives the methods gives the store
        inputs = PlanInputs(leased.sources, self._ledger.of_run(leased.run_id), self._store)
        run = self._ledger.runs.get(leased.run_id)
        rest_of_plan = self._methods[leased.kind].rest_of_plan
        assert rest_of_plan is not None  # such runs of no other kinds are leased
        store_plan(leased, rest_of_plan(run, inputs, leased.first), self._ledger.stages)

    def _plan_next(self, leased: LeasedStage) -> None:
        method = self._methods[leased.kind]
        assert method.next_stage is not None  # such runs of no other kinds are leased
        plan_stage(leased, method.next_stage, method.item, self._ledger, most_items=self._most_items)

    def _fail(self, leased: LeasedStage, error: CounterposeError) -> None:
        _logger.warning("stage %d of run %s: %s", leased.stage, leased.run_id, error.detail)
        try:
            self._ledger.stages.fail(leased, error)
        except CounterposeError as away:
            _logger.warning("the failure of run %s is not noted: %s", leased.run_id, away.detail)

    def _release(self, leased: LeasedStage) -> None:
        try:
            self._ledger.stages.release(leased)
        except LeaseLost:
            # The usual case: a stage that was opened, ended or failed leaves no lease to give back.
            return
        except CounterposeError as error:
            _logger.warning("the lease of run %s runs out by itself: %s", leased.run_id, error.detail)
