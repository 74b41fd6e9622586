"""``POST /v1/<method>``: create a run; and what only one method has. The rest stands under ``/v1/runs``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from counterpose_core.contract.adversarial_datasets import DatasetRegistration
from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate, BugHuntQuestion
from counterpose_core.contract.bug_hunts import DescriptionsCreate
from counterpose_core.contract.dataset_interfaces import Images, ImagesCreate
from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.gates import RegressionSet, RegressionSetOf
from counterpose_core.contract.proofs import FindingHistory, ProofCreate
from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmarks import ImageSource
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from counterpose_core.contract.stress_test_estimates import StressTestEstimate, StressTestQuestion
from counterpose_core.kinds import KINDS
from counterpose_gateway.exports.export import register
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.adversarial_dataset.export import adversarial_records
from counterpose_gateway.methods.adversarial_dataset.method import ADVERSARIAL_DATASET
from counterpose_gateway.methods.bug_hunt.dry_run import dry_run
from counterpose_gateway.methods.bug_hunt.measurement import start_measurement
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.methods.dataset_interface.learning import generate
from counterpose_gateway.methods.dataset_interface.method import DATASET_INTERFACE
from counterpose_gateway.methods.gate.method import GATE
from counterpose_gateway.methods.gate.plan import freeze
from counterpose_gateway.methods.shift_benchmark import threshold_review
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.methods.stress_test.estimate import estimate
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.proof import finding_history, start_proof
from counterpose_gateway.routes.context import IN_DIGITS, Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.runs.plan_account import PlanAccount
from counterpose_gateway.runs.submission import require_services, submit
from counterpose_gateway.summaries.summaries import summary_of

RUN_RETRY_AFTER = "2"


def _accepted(run: Run, response: Response) -> Run:
    """Set the location of a new run, and the time after which to poll it."""
    response.headers["location"] = f"/v1/runs/{run.id}"
    response.headers["retry-after"] = RUN_RETRY_AFTER
    return run


def _only(method: AnyMethod) -> dict[str, Any]:
    """Return tag and check of a route that runs of one method alone have: others are not found there."""

    async def check(run_id: RunId, context: Context) -> None:
        await context.status.read(run_id, method.kind)

    return {"tags": [_tag(method)], "dependencies": [Depends(check)]}


def _tag(method: AnyMethod) -> str:
    return f"{KINDS[method.kind].title.lower()}s"


def _creating(method: AnyMethod) -> Callable[..., Awaitable[Run]]:
    async def create(body: Any, context: Submitting, response: Response, key: IdempotencyKey = None) -> Run:
        """Create a run; it is durable before the answer, and a worker takes it up."""
        return _accepted(await submit(method, body, context, key), response)

    create.__annotations__["body"] = method.create
    return create


router = APIRouter(prefix="/v1", route_class=StrictRoute)
for _kind in KINDS.values():
    router.post(
        f"/{_kind.path}",
        status_code=202,
        name=f"create_{_kind.name.replace('-', '_')}",
        tags=[_tag(METHODS[_kind.name])],
    )(_creating(METHODS[_kind.name]))


@router.post("/runs/{run_id:segment}/register", status_code=201, **_only(ADVERSARIAL_DATASET))
def register_adversarial_dataset(run_id: RunId, body: DatasetRegistration, context: Context) -> Dataset:
    """Register the kept images as a dataset; registering the same images again changes nothing."""
    summary = summary_of(ADVERSARIAL_DATASET, run_id, None, context)
    items = context.ledger.items.of(run_id, ADVERSARIAL_DATASET.item)
    return register(
        body.name,
        summary.config.labels,
        adversarial_records(summary, items),
        ledger=context.ledger,
        store=context.store,
        quotas=Quotas.of(context.settings),
    )


@router.post("/bug-hunts/estimate", tags=[_tag(BUG_HUNT)])
async def estimate_bug_hunt(body: BugHuntQuestion, context: Context) -> BugHuntEstimate:
    """Return what such a hunt would take and the smallest rates that it could find, or refuse it as its run.

    Nothing is created; one image of each label is drawn, to see that the generator knows its words. Where a
    server of others would be paid for it, none is drawn, and `undrawn` says which.
    """
    require_services(BUG_HUNT, context.suite)
    return await dry_run(body, context)


@router.post("/runs/{run_id:segment}/descriptions", status_code=202, **_only(BUG_HUNT))
async def measure_descriptions(
    run_id: RunId,
    body: DescriptionsCreate,
    context: Submitting,
    response: Response,
    key: IdempotencyKey = None,
) -> Run:
    """Create a child run that measures descriptions of your own on fresh images, beside the label alone."""
    return _accepted(await start_measurement(run_id, body, context, key), response)


@router.post("/runs/{run_id:segment}/generate", **_only(DATASET_INTERFACE))
async def generate_images(run_id: RunId, body: ImagesCreate, context: Context) -> Images:
    """Generate images of a class, as it is or under a shift."""
    # As raw pixels, as the editor stores them.
    room = body.n * 3 * context.suite.editor.resolution**2
    check = Quotas.of(context.settings).check_kept
    await asyncio.to_thread(context.ledger.blobs.reserve, room, check)
    return await generate(run_id, body, context, seconds=context.settings.call_seconds)


@router.post("/gates/freeze", tags=[_tag(GATE)])
async def freeze_regression_set(body: RegressionSetOf, context: Context) -> RegressionSet:
    """Return the counterfactuals of an ended run as a regression set, by their digest; stores nothing."""
    return (await freeze(body.baseline, context)).told


Shift = Annotated[str, Path(description="Name of the shift.")]


@router.get("/runs/{run_id:segment}/inspections", **_only(SHIFT_BENCHMARK))
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
    return threshold_review.inspect_shift(run_id, shift, image_source, context.ledger)


@router.get("/runs/{run_id:segment}/shift-thresholds", **_only(SHIFT_BENCHMARK))
def list_shift_thresholds(run_id: RunId, context: Context) -> ShiftThresholds:
    """Return the shift thresholds in force and every decision on them, oldest first."""
    return threshold_review.list_thresholds(run_id, context.ledger)


# A shift may be a whole prompt, which may have a slash in it.
@router.put("/runs/{run_id:segment}/shift-thresholds/{shift:path}", **_only(SHIFT_BENCHMARK))
def set_shift_threshold(
    run_id: RunId, shift: Shift, body: ShiftThresholdSet, context: Context
) -> ShiftThresholdDecision:
    """Record a decision on a shift's threshold; the newest is in force, and older ones are kept."""
    return threshold_review.set_threshold(run_id, shift, body, context.ledger)


FindingNumber = Annotated[int, Path(ge=1, description="Number of the finding in the run, from 1."), IN_DIGITS]


@router.post("/runs/{run_id:segment}/findings/{number}/prove", status_code=202, **_only(STRESS_TEST))
async def prove_finding(
    run_id: RunId,
    number: FindingNumber,
    body: ProofCreate,
    context: Submitting,
    response: Response,
    key: IdempotencyKey = None,
) -> Run:
    """Create a child run that makes more pairs for one finding; the run itself is never reopened."""
    return _accepted(await start_proof(run_id, number, body, context, key), response)


@router.get("/runs/{run_id:segment}/findings/{number}", **_only(STRESS_TEST))
def get_finding(run_id: RunId, number: FindingNumber, context: Context) -> FindingHistory:
    """Return a finding as its run tells it, and as all runs that prove it tell it together."""
    return finding_history(run_id, number, context)


@router.post("/stress-tests/estimate", tags=[_tag(STRESS_TEST)])
async def estimate_stress_test(body: StressTestQuestion, context: Context) -> StressTestEstimate:
    """Say what a stress test would take and could prove, or refuse it as its run would; nothing is created.

    Each classifier is shown up to 64 of the images, and the suite's models the first eight.
    """
    require_services(STRESS_TEST, context.suite)
    with PlanAccount.of(body.spending, context.suite).kept():
        return await estimate(body, context)
