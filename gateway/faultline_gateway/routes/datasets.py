"""``/v1/datasets``: labelled images that a user provides."""

from __future__ import annotations

from fastapi import APIRouter, Response

from faultline_core.contract.datasets import Dataset, DatasetCreate, DatasetList, SourcesAdd, SourcesAdded
from faultline_gateway.http.strict_json import StrictRoute
from faultline_gateway.images.intake import add_uploads, checked_classes
from faultline_gateway.routes.context import Context, IdempotencyKey
from faultline_gateway.routes.idempotency import answer_once

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], route_class=StrictRoute)


# Plain functions, not coroutines: the ledger and the decoding of images block, so they run in threads.
@router.post("", status_code=201, response_model=Dataset)
def create_dataset(body: DatasetCreate, context: Context, key: IdempotencyKey = None) -> Response:
    """Create an empty dataset; the same name with the same classes is the same dataset."""

    def work() -> Dataset:
        return context.ledger.create_dataset(body.name, checked_classes(body.classes))

    return answer_once(context.ledger, "datasets", key, body, work, status=201)


@router.get("")
def list_datasets(context: Context) -> DatasetList:
    """List the datasets."""
    return DatasetList(datasets=context.ledger.dataset_list())


@router.get("/{name}")
def get_dataset(name: str, context: Context) -> Dataset:
    """Return one dataset."""
    return context.ledger.dataset(name)


@router.post("/{name}/sources", status_code=200, response_model=SourcesAdded)
def add_sources(name: str, body: SourcesAdd, context: Context, key: IdempotencyKey = None) -> Response:
    """Add labelled images; a rejected image does not affect the others."""

    def work() -> SourcesAdded:
        return add_uploads(name, body.sources, context.ledger, context.store)

    return answer_once(context.ledger, f"datasets/{name}/sources", key, body, work, status=200)
