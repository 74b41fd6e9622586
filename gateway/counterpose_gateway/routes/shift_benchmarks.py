"""``/v1/shift-benchmarks``: create them, sum them up, set thresholds; other routes are those of every run."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageSource, ShiftBenchmarkCreate
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_gateway.methods.shift_benchmark import decisions
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.routes.context import Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.exports import EXPORT_CONTENT, Dropped, Layout, export_response
from counterpose_gateway.routes.reports import Part, report_response, summary_response
from counterpose_gateway.routes.runs import accepted, run_router
from counterpose_gateway.runs.method import ExportChoice
from counterpose_gateway.runs.submission import submit

router = run_router(SHIFT_BENCHMARK)

Percentile = Annotated[
    float,
    Query(
        ge=0.0,
        le=100.0,
        allow_inf_nan=False,
        description="Percentile of each class's real images from which an image shows its object.",
    ),
]
Shift = Annotated[str, Path(description="Name of the shift.")]
Found = Annotated[bool, Query(description="Also images that were found and not generated.")]


@router.post("", status_code=202)
async def create_shift_benchmark(
    body: ShiftBenchmarkCreate, context: Submitting, response: Response, key: IdempotencyKey = None
) -> Run:
    """Create a shift benchmark; the run is durable before the answer, and a worker takes it up."""
    return accepted(await submit(SHIFT_BENCHMARK, body, context, key), router, response)


@router.get("/{run_id:segment}/summary", response_model=ShiftBenchmarkSummary)
async def summarize_shift_benchmark(
    request: Request,
    run_id: RunId,
    context: Context,
    object_percentile: Percentile = OBJECT_PERCENTILE,
) -> Response:
    """Return what each shift costs as the run stands; another percentile generates no images."""
    return await summary_response(request, SHIFT_BENCHMARK, run_id, context, object_percentile)


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


@router.get("/{run_id:segment}/report", response_class=HTMLResponse)
async def report_shift_benchmark(
    request: Request,
    run_id: RunId,
    context: Context,
    object_percentile: Percentile = OBJECT_PERCENTILE,
    part: Part = "whole",
) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    return await report_response(request, SHIFT_BENCHMARK, run_id, context, object_percentile, part=part)


@router.get("/{run_id:segment}/export", response_class=StreamingResponse, responses=EXPORT_CONTENT)
def export_shift_benchmark(
    run_id: RunId,
    context: Context,
    layout: Layout = "imagefolder",
    dropped: Dropped = False,
    found: Found = False,
    object_percentile: Percentile = OBJECT_PERCENTILE,
) -> StreamingResponse:
    """Export the kept generated images with their provenance and a card, as a tar archive."""
    choice = ExportChoice(dropped=dropped, found=found)
    return export_response(SHIFT_BENCHMARK, run_id, layout, choice, context, object_percentile)
