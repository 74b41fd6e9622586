"""What only shift benchmarks have: thresholds of shifts, and the images to look at before."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from counterpose_core.contract.shift_benchmarks import ImageSource
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.methods.shift_benchmark import decisions
from counterpose_gateway.routes.context import Context, RunId
from counterpose_gateway.routes.creation import only

router = APIRouter(prefix="/v1", tags=["shift benchmarks"], route_class=StrictRoute)

Shift = Annotated[str, Path(description="Name of the shift.")]


@router.get("/runs/{run_id:segment}/inspections", dependencies=[only("shift-benchmark")])
def inspect_shift(
    run_id: RunId,
    context: Context,
    shift: Annotated[str, Query(min_length=1, max_length=500, description="Name of the shift.")],
    image_source: Annotated[
        ImageSource | None,
        Query(description="Image source of the images, or none for the first of the benchmark."),
    ] = None,
) -> Inspections:
    """Return images of a shift around fixed percentiles, to look at before a threshold is set."""
    return decisions.inspect_shift(run_id, shift, image_source, context.ledger)


@router.get("/runs/{run_id:segment}/shift-thresholds", dependencies=[only("shift-benchmark")])
def list_shift_thresholds(run_id: RunId, context: Context) -> ShiftThresholds:
    """Return the shift thresholds in force and every decision on them, oldest first."""
    return decisions.list_thresholds(run_id, context.ledger)


# A shift may be a whole prompt, which may have a slash in it.
@router.put("/runs/{run_id:segment}/shift-thresholds/{shift:path}", dependencies=[only("shift-benchmark")])
def set_shift_threshold(
    run_id: RunId, shift: Shift, body: ShiftThresholdSet, context: Context
) -> ShiftThresholdDecision:
    """Record a decision on a shift's threshold; the newest is in force, and older ones are kept."""
    return decisions.set_threshold(run_id, shift, body, context.ledger)
