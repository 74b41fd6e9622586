"""``/v1/shift-benchmarks``: create them, sum them up, set thresholds; other routes are those of every run."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from counterpose_core.contract.shift_benchmarks import ImageSource
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_gateway.methods.shift_benchmark import decisions
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.routes.context import Context, RunId
from counterpose_gateway.routes.exports import Dropped
from counterpose_gateway.routes.runs import run_router
from counterpose_gateway.runs.method import ExportChoice

Percentile = Annotated[
    float,
    Query(
        ge=0.0,
        le=100.0,
        allow_inf_nan=False,
        description="Percentile of each class's real images from which an image shows its object.",
    ),
]
Found = Annotated[bool, Query(description="Also images that were found and not generated.")]


async def _percentile(object_percentile: Percentile = OBJECT_PERCENTILE) -> float:
    return object_percentile


async def _images(dropped: Dropped = False, found: Found = False) -> ExportChoice:
    return ExportChoice(dropped=dropped, found=found)


router = run_router(SHIFT_BENCHMARK, view=_percentile, choice=_images)

Shift = Annotated[str, Path(description="Name of the shift.")]


@router.get("/{run_id:segment}/inspections")
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


@router.get("/{run_id:segment}/shift-thresholds")
def list_shift_thresholds(run_id: RunId, context: Context) -> ShiftThresholds:
    """Return the shift thresholds in force and every decision on them, oldest first."""
    return decisions.list_thresholds(run_id, context.ledger)


# A shift may be a whole prompt, which may have a slash in it.
@router.put("/{run_id:segment}/shift-thresholds/{shift:path}")
def set_shift_threshold(
    run_id: RunId, shift: Shift, body: ShiftThresholdSet, context: Context
) -> ShiftThresholdDecision:
    """Record a decision on a shift's threshold; the newest is in force, and older ones are kept."""
    return decisions.set_threshold(run_id, shift, body, context.ledger)
