"""``/v1/adversarial-datasets``: images that classifiers get wrong; other routes are those of every run."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import AdversarialDatasetCreate, DatasetRegistration
from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.runs import Run
from counterpose_gateway.exports.registration import register
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.methods.adversarial_dataset.export import adversarial_records
from counterpose_gateway.methods.adversarial_dataset.method import ADVERSARIAL_DATASET
from counterpose_gateway.routes.context import Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.exports import EXPORT_CONTENT, Dropped, Layout, export_response
from counterpose_gateway.routes.reports import Part, report_response, summary_response
from counterpose_gateway.routes.runs import accepted, run_router
from counterpose_gateway.runs.method import ExportChoice
from counterpose_gateway.runs.submission import submit
from counterpose_gateway.runs.summaries import summary_of

router = run_router(ADVERSARIAL_DATASET)


@router.post("", status_code=202)
async def create_adversarial_dataset(
    body: AdversarialDatasetCreate, context: Submitting, response: Response, key: IdempotencyKey = None
) -> Run:
    """Create an adversarial dataset; the run is durable before the answer, and a worker takes it up."""
    return accepted(await submit(ADVERSARIAL_DATASET, body, context, key), router, response)


@router.post("/{run_id:segment}:register", status_code=201)
def register_adversarial_dataset(run_id: RunId, body: DatasetRegistration, context: Context) -> Dataset:
    """Register the kept images as a dataset; registering the same images again changes nothing."""
    summary = summary_of(ADVERSARIAL_DATASET, run_id, None, context)
    items = context.ledger.items_of(run_id, ADVERSARIAL_DATASET.item)
    return register(
        body.name,
        summary.config.labels,
        adversarial_records(summary, items),
        ledger=context.ledger,
        store=context.store,
        quotas=Quotas.of(context.settings),
    )


@router.get("/{run_id:segment}/summary", response_model=AdversarialDatasetSummary)
async def summarize_adversarial_dataset(request: Request, run_id: RunId, context: Context) -> Response:
    """Return what is kept, what each filter dropped, and how often captions fail."""
    return await summary_response(request, ADVERSARIAL_DATASET, run_id, context)


@router.get("/{run_id:segment}/report", response_class=HTMLResponse)
async def report_adversarial_dataset(
    request: Request, run_id: RunId, context: Context, part: Part = "whole"
) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    return await report_response(request, ADVERSARIAL_DATASET, run_id, context, part=part)


@router.get("/{run_id:segment}/export", response_class=StreamingResponse, responses=EXPORT_CONTENT)
def export_adversarial_dataset(
    run_id: RunId, context: Context, layout: Layout = "imagefolder", dropped: Dropped = False
) -> StreamingResponse:
    """Export the kept images with their provenance and a card, as a tar archive."""
    return export_response(ADVERSARIAL_DATASET, run_id, layout, ExportChoice(dropped=dropped), context)
