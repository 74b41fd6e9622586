"""``/v1/shift-benchmarks``: create them, sum them up, set thresholds; the rest is as for every run."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from faultline_core.contract.runs import Run
from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from faultline_core.contract.shift_benchmarks import BenchmarkSource, PictureItem, ShiftBenchmarkCreate
from faultline_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from faultline_core.object_thresholds import OBJECT_PERCENTILE
from faultline_gateway.benchmark_submission import submit_benchmark
from faultline_gateway.exports.benchmark_pictures import benchmark_card, benchmark_records
from faultline_gateway.parts import IdempotencyKey, Parts
from faultline_gateway.reports.benchmark_report import render_benchmark
from faultline_gateway.routes.exports import EXPORT_CONTENT, Dropped, Layout, export_response
from faultline_gateway.routes.reports import report_response
from faultline_gateway.routes.runs import accepted, run_router

router = run_router("shift-benchmark", PictureItem)

Percentile = Annotated[float, Query(ge=0.0, le=100.0, allow_inf_nan=False)]
Found = Annotated[bool, Query(description="Also pictures that were found and not generated.")]


@router.post("", status_code=202)
async def create_shift_benchmark(
    body: ShiftBenchmarkCreate, parts: Parts, response: Response, key: IdempotencyKey = None
) -> Run:
    """Plan a benchmark of shifts; it is durable before this answers, and a worker takes it up."""
    return accepted(await submit_benchmark(body, parts, key), router, response)


@router.get("/{run_id}/summary")
def summarize_shift_benchmark(
    run_id: str,
    parts: Parts,
    object_percentile: Percentile = OBJECT_PERCENTILE,
) -> ShiftBenchmarkSummary:
    """Return what each shift costs as the run stands; another percentile generates nothing anew."""
    return parts.benchmarks.summary(run_id, object_percentile)


@router.get("/{run_id}/inspections")
def inspect_shift(
    run_id: str,
    parts: Parts,
    shift: Annotated[str, Query(min_length=1, max_length=500)],
    source: BenchmarkSource | None = None,
) -> Inspections:
    """Return pictures of a shift around fixed percentiles, for somebody to look at."""
    return parts.benchmarks.inspections(run_id, shift, source)


@router.get("/{run_id}/shift-thresholds")
def list_shift_thresholds(run_id: str, parts: Parts) -> ShiftThresholds:
    """Return the shift thresholds in force and every decision on them, oldest first."""
    return parts.benchmarks.thresholds(run_id)


# A shift may be a whole prompt, which may have a slash in it.
@router.put("/{run_id}/shift-thresholds/{shift:path}")
def set_shift_threshold(
    run_id: str, shift: str, body: ShiftThresholdSet, parts: Parts
) -> ShiftThresholdDecision:
    """Keep who decided on which threshold of a shift; the newest is in force, older ones are kept."""
    return parts.benchmarks.decide(run_id, shift, body)


@router.get("/{run_id}/report", response_class=HTMLResponse)
def report_shift_benchmark(
    run_id: str, parts: Parts, object_percentile: Percentile = OBJECT_PERCENTILE
) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    summary = parts.benchmarks.summary(run_id, object_percentile)
    items = parts.ledger.items_of(run_id, PictureItem)
    return report_response(render_benchmark(summary, parts.ledger.run(run_id), items, parts.store.get))


@router.get("/{run_id}/export", response_class=StreamingResponse, responses=EXPORT_CONTENT)
def export_shift_benchmark(
    run_id: str,
    parts: Parts,
    layout: Layout = "imagefolder",
    dropped: Dropped = False,
    found: Found = False,
    object_percentile: Percentile = OBJECT_PERCENTILE,
) -> StreamingResponse:
    """Return the generated pictures that are kept, with their provenance and a card, as a tar."""
    summary = parts.benchmarks.summary(run_id, object_percentile)
    items = parts.ledger.items_of(run_id, PictureItem)
    records = benchmark_records(summary, items, dropped=dropped, found=found)
    return export_response(run_id, records, benchmark_card(summary, dropped=dropped), layout, parts)
