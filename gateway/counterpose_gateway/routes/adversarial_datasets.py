"""What only adversarial datasets have: they become datasets."""

from __future__ import annotations

from fastapi import APIRouter

from counterpose_core.contract.adversarial_datasets import DatasetRegistration
from counterpose_core.contract.datasets import Dataset
from counterpose_gateway.exports.registration import register
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.methods.adversarial_dataset.export import adversarial_records
from counterpose_gateway.methods.adversarial_dataset.method import ADVERSARIAL_DATASET
from counterpose_gateway.routes.context import Context, RunId
from counterpose_gateway.routes.creation import only
from counterpose_gateway.summaries.summaries import summary_of

router = APIRouter(prefix="/v1", tags=["adversarial datasets"], route_class=StrictRoute)


@router.post("/runs/{run_id:segment}/register", status_code=201, dependencies=[only("adversarial-dataset")])
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
