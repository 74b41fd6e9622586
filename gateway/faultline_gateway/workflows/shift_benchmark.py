"""The shift benchmark: pictures of a class under a shift, measured by CLIP and shown to every classifier."""

from __future__ import annotations

from faultline_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedGroup, Recorder
from faultline_gateway.workflows.attempt import OpenItems, settle
from faultline_gateway.workflows.benchmark_cells import GENERATED, Cell
from faultline_gateway.workflows.benchmark_pictures import obtain
from faultline_gateway.workflows.benchmark_planning import plan_benchmark
from faultline_gateway.workflows.found_pictures import IndexStore
from faultline_gateway.workflows.objectionable import drop_objectionable
from faultline_gateway.workflows.picture_similarities import measure
from faultline_gateway.workflows.predictions import predict_pictures

__all__ = ["plan_benchmark", "process_pictures"]


async def process_pictures(
    group: LeasedGroup,
    config: ShiftBenchmarkConfig,
    *,
    services: Services,
    record: Recorder,
    store: IndexStore,
) -> None:
    """Work through the leased pictures of one cell and record each exactly once.

    A bad picture fails alone; a call that fails as a whole fails the pictures that needed it. What the
    thresholds would drop is recorded like the rest, so that they can be changed afterwards.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    attempt = OpenItems(group, record, store)
    await settle(attempt, group, _work_through(attempt, group.source_id, config, services, store))


async def _work_through(
    attempt: OpenItems, source_id: str, config: ShiftBenchmarkConfig, services: Services, store: IndexStore
) -> None:
    cell = Cell.of(source_id)
    obtained = await obtain(attempt, config, cell, services, store)
    drafts = await measure(attempt, config, cell, obtained, services)
    threshold = config.objectionable if cell.source in GENERATED else None
    drafts = await drop_objectionable(attempt, drafts, threshold, services)
    await predict_pictures(attempt, config, drafts, services)
