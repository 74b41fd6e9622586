"""``/v1/shift-benchmarks``: create them, sum them up, set thresholds; the rest is as for every run."""

from __future__ import annotations

from fastapi import Response

from faultline_core.contract.runs import Run
from faultline_core.contract.shift_benchmarks import PictureItem, ShiftBenchmarkCreate
from faultline_gateway.benchmark_submission import submit_benchmark
from faultline_gateway.parts import IdempotencyKey, Parts
from faultline_gateway.routes.runs import accepted, run_router

router = run_router("shift-benchmark", PictureItem)


@router.post("", status_code=202)
async def create_shift_benchmark(
    body: ShiftBenchmarkCreate, parts: Parts, response: Response, key: IdempotencyKey = None
) -> Run:
    """Plan a benchmark of shifts; it is durable before this answers, and a worker takes it up."""
    return accepted(await submit_benchmark(body, parts, key), router, response)
