"""``/v1/datasets``: labelled images that a user provides; ``/v1/token-files``: tokens that others learned."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel

from counterpose_core.blobs import digest
from counterpose_core.contract.datasets import (
    Dataset,
    DatasetChange,
    DatasetCreate,
    DatasetList,
    ImportCreate,
    SourcesAdd,
    SourcesAdded,
)
from counterpose_core.contract.token_files import TokenFile, TokenFilesAdd, TokenFilesAdded
from counterpose_core.errors import InvalidRequest
from counterpose_core.types import PortableName
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.images.intake import add_uploads, checked_classes
from counterpose_gateway.images.pixels import require_few_pixels
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.imports.storage import AllowedAddresses, layout_of, with_revision
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.idempotency import StoredAnswer
from counterpose_gateway.routes.context import Context, IdempotencyKey
from counterpose_gateway.runs.submission import fingerprint

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], route_class=StrictRoute)
tokens = APIRouter(prefix="/v1/token-files", tags=["token files"], route_class=StrictRoute)
"""Tokens that others have learned, stored for a dataset interface to name."""

DatasetName = Annotated[str, Path(description="Name of the dataset.")]
NewDatasetName = Annotated[
    PortableName, Path(description="Name of the dataset, which is made if there is none.")
]


# Plain functions, not coroutines: the ledger blocks, so they run in threads.
@router.post("", status_code=201, response_model=Dataset)
def create_dataset(body: DatasetCreate, context: Context, key: IdempotencyKey = None) -> Response:
    """Create an empty dataset; the same name with the same classes is the same dataset."""

    def work() -> Dataset:
        quotas = Quotas.of(context.settings)
        ends = quotas.end_of_dataset(body.expires_in, time.time())
        classes = checked_classes(body.classes)
        made = context.ledger.datasets.create(body.name, classes, quotas.check_datasets, expires_at=ends)
        # One that was there has its own end, until another is asked for.
        return made if body.expires_in is None else context.ledger.datasets.end(body.name, ends)

    return answer_once(context.ledger, "datasets", key, body, work, status=201)


@router.get("")
def list_datasets(context: Context) -> DatasetList:
    """List the datasets."""
    return DatasetList(datasets=context.ledger.datasets.all())


@router.get("/{name}")
def get_dataset(name: DatasetName, context: Context) -> Dataset:
    """Return one dataset."""
    return context.ledger.datasets.get(name)


@router.patch("/{name}")
def change_dataset(name: DatasetName, body: DatasetChange, context: Context) -> Dataset:
    """Set when a dataset ends, counted from now."""
    ends = Quotas.of(context.settings).end_of_dataset(body.expires_in, time.time())
    return context.ledger.datasets.end(name, ends)


@router.delete("/{name}", status_code=204)
def delete_dataset(name: DatasetName, context: Context) -> None:
    """Delete a dataset; its images go within hours, unless a run or another dataset has them."""
    context.ledger.datasets.delete(name)


@router.post("/{name}/sources", status_code=200, response_model=SourcesAdded)
async def add_sources(
    name: DatasetName, body: SourcesAdd, context: Context, key: IdempotencyKey = None
) -> Response:
    """Add labelled images; a rejected image does not affect the others."""

    def work() -> SourcesAdded:
        require_few_pixels(body.sources)
        quotas = Quotas.of(context.settings)
        return add_uploads(name, body.sources, context.ledger, context.store, quotas)

    scope = f"datasets/{name}/sources"
    return await context.in_image_turn(answer_once, context.ledger, scope, key, body, work, status=200)


@router.post("/{name}/import", status_code=202, response_model=Dataset)
def import_dataset(
    name: NewDatasetName, body: ImportCreate, context: Context, key: IdempotencyKey = None
) -> Response:
    """Fill a dataset from a URL; workers take its shards, and its `imported` says how far they are.

    The dataset is made if it does not exist. The same request again goes on with an import that failed.
    """

    def work() -> Dataset:
        allowed = AllowedAddresses(context.settings.import_from)
        return begin_import(name, body, context.ledger, allowed, Quotas.of(context.settings))

    return answer_once(context.ledger, f"datasets/{name}/import", key, body, work, status=202)


@router.post("/{name}/import/cancel")
def cancel_import(name: DatasetName, context: Context) -> Dataset:
    """Stop an import: it ends as `failed`, and what was taken in stays; one that has ended stays as it is."""
    context.ledger.imports.cancel(name)
    return context.ledger.datasets.get(name)


def answer_once(
    ledger: Ledger,
    scope: str,
    key: str | None,
    body: BaseModel,
    work: Callable[[], BaseModel],
    *,
    status: int,
) -> Response:
    """Do ``work`` once for a key and answer its result to every call with the key.

    A failure is not kept: the next call with the key does the work again.

    Raises:
        IdempotencyConflict: the key was used with another body.
        IdempotencyInFlight: the first call has not answered yet.
    """
    if key is None:
        return _response(StoredAnswer(status, work().model_dump_json()))
    known = ledger.idempotency.claim(scope, key, fingerprint(body))
    if known is not None:
        return _response(known)
    try:
        answer = StoredAnswer(status, work().model_dump_json())
    except BaseException:
        # If kept, the claim would answer "in flight" to the retry.
        ledger.idempotency.forget(scope, key)
        raise
    ledger.idempotency.answer(scope, key, answer)
    return _response(answer)


def _response(answer: StoredAnswer) -> Response:
    return Response(answer.body, answer.status, media_type="application/json")


def begin_import(
    name: str, request: ImportCreate, ledger: Ledger, allowed: AllowedAddresses, quotas: Quotas
) -> Dataset:
    """Make the dataset if there is none, and let workers import into it; they alone read the address.

    Raises:
        ImportRefused: the address is not allowed.
        InvalidRequest: a field is wrong, or the dataset has images or another import.
        ClassMapMismatch: two class names look alike.
        QuotaExceeded: there are too many datasets.
    """
    allowed.require(with_revision(request.url, request.revision))
    classes = checked_classes(request.classes)
    if request.classes is not None or not ledger.datasets.has(name):
        ends = quotas.end_of_dataset(None, time.time())
        ledger.datasets.create(name, classes, quotas.check_datasets, expires_at=ends)
    ledger.imports.create(name, request, layout_of(request), classes)
    return ledger.datasets.get(name)


# A plain function, not a coroutine: the store blocks, so it runs in a thread.
@tokens.post("", status_code=201)
def add_token_files(body: TokenFilesAdd, context: Context) -> TokenFilesAdded:
    """Store files of tokens by their content; the editor reads them when an interface takes them."""
    context.store.require_room(context.settings.least_free_bytes)
    files = [(file.class_name, _token(file, at)) for at, file in enumerate(body.files)]
    quotas, sizes = Quotas.of(context.settings), {digest(content): len(content) for _, content in files}
    context.ledger.blobs.check_room(sizes, quotas.check_kept)
    tokens = {name: context.store.put(content) for name, content in files}
    context.ledger.blobs.keep(sizes, quotas.check_kept)
    return TokenFilesAdded(tokens=tokens)


def _token(file: TokenFile, at: int) -> bytes:
    try:
        return base64.b64decode(file.content_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(
            f"the token of {file.class_name!r} is not base64", pointer=f"/files/{at}/content_base64"
        ) from error
