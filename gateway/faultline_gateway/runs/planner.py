"""The planner: leases runs that wait for their next stage and plans it, while the lease is renewed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from faultline_core.errors import FaultlineError, InternalError, LeaseLost
from faultline_core.types import RunKind
from faultline_gateway.runs.items import LeasedStage
from faultline_gateway.runs.renewal import keep_leased
from faultline_gateway.runs.stages import StagedMethod, StageLedger, plan_stage

_logger = logging.getLogger(__name__)


class Planner:
    """Plans stages of runs of the ``methods`` that have stages, one at a time."""

    def __init__(
        self,
        ledger: StageLedger,
        methods: Mapping[RunKind, StagedMethod],
        *,
        lease_seconds: float,
        most_items: int,
    ) -> None:
        self._ledger = ledger
        self._methods = methods
        self._lease_seconds = lease_seconds
        self._most_items = most_items

    async def lease(self) -> LeasedStage | None:
        """Lease the planning of a run's next stage, if one waits; call `plan` next."""
        # Without such methods the ledger is not asked: an idle worker looks twice a second.
        if not self._methods:
            return None
        kinds = tuple(self._methods)
        return await asyncio.to_thread(self._ledger.lease_stage, kinds, seconds=self._lease_seconds)

    async def plan(self, leased: LeasedStage) -> None:
        """Plan the leased stage; after a cancellation the thread stops at its next chunk."""
        renewal = asyncio.create_task(keep_leased(self._ledger.renew_stage, leased, self._lease_seconds))
        try:
            await asyncio.to_thread(self._plan, leased)
        finally:
            renewal.cancel()
            await asyncio.to_thread(self._release, leased)

    def _plan(self, leased: LeasedStage) -> None:
        try:
            plan_stage(leased, self._methods[leased.kind], self._ledger, most_items=self._most_items)
        except LeaseLost as error:
            _logger.info("%s", error.detail)
        except FaultlineError as error:
            self._fail(leased, error)
        # The method's own code runs here: a defect in it must end its run, not the worker.
        except Exception as error:
            _logger.exception("stage %d of run %s could not be planned", leased.stage, leased.run_id)
            self._fail(leased, InternalError(f"unexpected {type(error).__name__}"))

    def _fail(self, leased: LeasedStage, error: FaultlineError) -> None:
        _logger.warning("stage %d of run %s: %s", leased.stage, leased.run_id, error.detail)
        try:
            self._ledger.fail_stage(leased, error)
        except FaultlineError as away:
            _logger.warning("the failure of run %s is not noted: %s", leased.run_id, away.detail)

    def _release(self, leased: LeasedStage) -> None:
        try:
            self._ledger.release_stage(leased)
        except LeaseLost:
            # The usual case: a stage that was opened, ended or failed leaves no lease to give back.
            return
        except FaultlineError as error:
            _logger.warning("the lease of run %s runs out by itself: %s", leased.run_id, error.detail)
