"""``/v1/datasets``: labelled pictures a user brings."""

from __future__ import annotations

from fastapi import APIRouter, Response

from faultline_core.contract.datasets import Dataset, DatasetCreate, DatasetList, SourcesAdd, SourcesAdded
from faultline_gateway.datasets import add_uploads, checked_classes
from faultline_gateway.idempotency import answer_once
from faultline_gateway.parts import IdempotencyKey, Parts
from faultline_gateway.strict_json import StrictRoute

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], route_class=StrictRoute)


# Plain functions, not coroutines: the ledger and the decoding of pictures block, so they run in threads.
@router.post("", status_code=201, response_model=Dataset)
def create_dataset(body: DatasetCreate, parts: Parts, key: IdempotencyKey = None) -> Response:
    """Make an empty dataset; the same name with the same classes is the same dataset."""

    def work() -> Dataset:
        return parts.ledger.create_dataset(body.name, checked_classes(body.classes))

    return answer_once(parts.ledger, "datasets", key, body, work, status=201)


@router.get("")
def list_datasets(parts: Parts) -> DatasetList:
    """Name the datasets."""
    return DatasetList(datasets=parts.ledger.dataset_list())


@router.get("/{name}")
def get_dataset(name: str, parts: Parts) -> Dataset:
    """Describe one dataset."""
    return parts.ledger.dataset(name)


@router.post("/{name}/sources", status_code=200, response_model=SourcesAdded)
def add_sources(name: str, body: SourcesAdd, parts: Parts, key: IdempotencyKey = None) -> Response:
    """Add labelled pictures; one that is refused leaves the others alone."""

    def work() -> SourcesAdded:
        return add_uploads(name, body.sources, parts.ledger, parts.store)

    return answer_once(parts.ledger, f"datasets/{name}/sources", key, body, work, status=200)
