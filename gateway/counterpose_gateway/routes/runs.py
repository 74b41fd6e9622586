"""``/v1/runs``: list, follow, cancel, resume, read items and figures of runs of every kind.

What the reader of a run chooses in its address: thresholds, percentiles, images to export.

Serve summaries, and reports as HTML that may fetch nothing and run only the report's own script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import BaseModel, Field, create_model
from sse_starlette import EventSourceResponse

from counterpose_core.contract.runs import PageOfItems, Run, RunItem, RunList, RunRename, RunResume
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.field_descriptions import field_description
from counterpose_core.kinds import KINDS
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_core.types import Cosine, ItemKind, ItemState, JudgeName, RunKind, RunState
from counterpose_gateway.http.in_flight import while_connected
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.methods import METHODS
from counterpose_gateway.progress.following import (
    LONGEST_WAIT_SECONDS,
    MEDIA_TYPE,
    event_response,
    first_event_id,
    result_lines,
    wait_for_end,
)
from counterpose_gateway.progress.status import StatusText
from counterpose_gateway.reports.environment import CONTENT_POLICY, first_screen
from counterpose_gateway.routes.context import IN_DIGITS, After, Context, PageSize, RunId
from counterpose_gateway.routes.exports import EXPORT_CONTENT, Dropped, Layout, export_response
from counterpose_gateway.runs.method import AnyMethod, ExportChoice
from counterpose_gateway.runs.submission import functions_again
from counterpose_gateway.summaries.summaries import awaited_report, awaited_summary

Percentile = Annotated[
    float | None,
    Query(
        ge=0.0,
        le=100.0,
        allow_inf_nan=False,
        description="Percentile of each class's real images from which an image of a shift benchmark shows "
        f"its object; {OBJECT_PERCENTILE:g} by default.",
    ),
]
Found = Annotated[
    bool, Query(description="Of a shift benchmark, also images that were found and not generated.")
]


def _said(name: str) -> str:
    return f"{field_description(Thresholds, name)} By default, the stress test's own."


async def _chosen(
    direction: Annotated[Cosine | None, Query(description=_said("direction"))] = None,
    image_image: Annotated[Cosine | None, Query(description=_said("image_image"))] = None,
    image_text: Annotated[Cosine | None, Query(description=_said("image_text"))] = None,
    closer: Annotated[bool | None, Query(description=_said("closer"))] = None,
    class_similarity: Annotated[Cosine | None, Query(description=_said("class_similarity"))] = None,
    word_similarity: Annotated[Cosine | None, Query(description=_said("word_similarity"))] = None,
    keep: Annotated[int | None, Query(ge=1, le=3, description=_said("keep")), IN_DIGITS] = None,
    without: Annotated[JudgeName | None, Query(description=_said("without"))] = None,
    object_percentile: Percentile = None,
) -> dict[str, Any]:
    """Return what was chosen, by its name."""
    return {name: value for name, value in locals().items() if value is not None}


Chosen = Annotated[dict[str, Any], Depends(_chosen)]


def require_choices(method: AnyMethod, run_id: str, chosen: Mapping[str, Any]) -> Any:
    """Return the reader's choice for the summary of a run.

    Raises:
        InvalidRequest: runs of this kind leave no such choice.
    """
    for name in chosen:
        if name not in method.choices:
            kinds = " or ".join(kind for kind, other in METHODS.items() if name in other.choices)
            raise InvalidRequest(
                f"the parameter {name!r} is of runs of the kind {kinds}, and run {run_id!r} is a "
                f"{KINDS[method.kind].title.lower()}; leave it out",
                pointer=f"/{name}",
            )
    return method.view(chosen)


# The report opens on our own origin: script that slipped through the escaping must not run there.
REPORT_HEADERS = {
    "content-security-policy": f"{CONTENT_POLICY}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    # Its address may be a signed link, which no other site needs to see.
    "referrer-policy": "no-referrer",
}


Part = Annotated[
    Literal["whole", "first-screen"],
    Query(description="`first-screen` for the verdict, its images and the models alone, without script."),
]


IF_NONE_MATCH = {
    "name": "if-none-match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "ETags of states that the caller already has, as earlier answers had them.",
}
Seconds = Annotated[
    float,
    Query(
        alias="timeout",
        ge=0,
        le=LONGEST_WAIT_SECONDS,
        description="Longest time to wait for the end of the run, in seconds.",
    ),
]
LastEventId = Annotated[
    int | None,
    Header(ge=0, description="Number of the last event received; the stream goes on with the next one."),
    IN_DIGITS,
]
OfKind = Annotated[RunKind | None, Query(alias="kind", description="Only runs of this kind.")]
OfState = Annotated[RunState | None, Query(alias="state", description="Only runs in this state.")]
OfDataset = Annotated[
    str | None, Query(alias="dataset", max_length=96, description="Only runs about this dataset.")
]
OfParent = Annotated[
    str | None, Query(alias="parent", max_length=64, description="Only runs that continue this run.")
]
ItemsOfKind = Annotated[ItemKind | None, Query(alias="kind", description="Only items of this kind.")]
ItemsInState = Annotated[ItemState | None, Query(alias="state", description="Only items in this state.")]
ItemsOfClass = Annotated[
    str | None, Query(alias="label", max_length=200, description="Only items of this class.")
]
ItemId = Annotated[str, Path(description="Id of the item.")]
FromOrdinal = Annotated[
    int,
    Query(
        alias="from", ge=0, lt=2**31, description="Ordinal of the first item to stream; items count from 0."
    ),
    IN_DIGITS,
]


async def _run(run_id: RunId, context: Context) -> StatusText:
    return await context.status.read(run_id)


KnownRun = Annotated[StatusText, Depends(_run)]
"""The row of the run, read once a request."""


def _of_any(field: str) -> Any:
    """Return what a field of an item may be, by the items of all methods."""
    shapes = (method.item.model_fields for method in METHODS.values())
    return Union[tuple(shape[field].annotation for shape in shapes if field in shape)]  # noqa: UP007


AnySummary: Any = Annotated[
    Union[tuple(method.summary for method in METHODS.values())],  # noqa: UP007
    Field(discriminator="kind"),
]
AnyItem: Any = create_model(
    "Item",
    __base__=RunItem,
    __doc__="One unit of work of a run, which ends in exactly one recorded outcome.",
    result=(_of_any("result"), RunItem.model_fields["result"]),
    instruction=(
        _of_any("instruction"),
        Field(default=None, description="What the run's plan asks of the item, or null if nothing more."),
    ),
)

listing = APIRouter(prefix="/v1/runs", tags=["runs"])
router = APIRouter(
    prefix="/v1/runs/{run_id:segment}", tags=["runs"], route_class=StrictRoute, dependencies=[Depends(_run)]
)


@listing.get("")
def list_runs(
    context: Context,
    kind: OfKind = None,
    state: OfState = None,
    dataset: OfDataset = None,
    parent: OfParent = None,
    after: After = None,
    limit: PageSize = 50,
) -> RunList:
    """List runs of every kind, newest first, a page at a time."""
    return context.ledger.runs.page(
        kind=kind, state=state, dataset=dataset, parent=parent, after=after, limit=limit
    )


@router.get(
    "",
    response_model=Run,
    responses={304: {"description": "The run is unchanged since the state that If-None-Match names."}},
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
async def get_run(run: KnownRun, request: Request) -> Response:
    """Return a run; with If-None-Match, answer 304 while it is unchanged."""
    return etag_response(run, request)


@router.patch("")
def rename_run(run_id: RunId, body: RunRename, context: Context) -> Run:
    """Give the run a name for people; its id stays."""
    return context.ledger.runs.rename(run_id, body.name)


@router.delete("", status_code=204)
def delete_run(run_id: RunId, context: Context) -> None:
    """Delete an ended run with its items; images that no other run or dataset has go within hours."""
    context.delete_run(run_id)


@router.get("/wait", response_model=Run)
async def wait_for_run(run_id: RunId, context: Context, seconds: Seconds = 25.0) -> Response:
    """Answer when the run has ended or the timeout has passed, whichever comes first."""
    run = await wait_for_end(context.followed, context.status, run_id, seconds)
    return Response(run.content, media_type="application/json")


@router.post("/cancel")
def cancel_run(run_id: RunId, context: Context) -> Run:
    """Cancel the run; finished items are kept."""
    return context.ledger.runs.cancel(run_id)


@router.post("/resume")
def resume_run(run_id: RunId, context: Context, body: RunResume | None = None) -> Run:
    """Resume the run: failed and cancelled items are tried again."""
    functions = {} if body is None else functions_again(run_id, body, context)
    return context.ledger.runs.resume(run_id, functions, None if body is None else body.spending)


@router.get(
    "/events", response_class=EventSourceResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def follow_run(
    run_id: RunId, context: Context, last_event_id: LastEventId = None
) -> EventSourceResponse:
    """Stream progress as server-sent events, from the event after Last-Event-ID or from now on."""
    after = await first_event_id(context.followed, run_id, last_event_id)
    return event_response(context.followed, run_id, after=after)


@router.get("/items", response_model=PageOfItems[AnyItem])
def list_items(
    run_id: RunId,
    run: KnownRun,
    context: Context,
    kind: ItemsOfKind = None,
    state: ItemsInState = None,
    label: ItemsOfClass = None,
    after: After = None,
    limit: PageSize = 100,
) -> Response:
    """List the items in planned order, a page at a time; pages never repeat or skip an item.

    Of a kind, state or class alone, pages before the last may be short or empty: go on until `after` is
    null.
    """
    shape = METHODS[run.kind].item
    page = context.ledger.items.page(
        run_id, shape, kind=kind, state=state, label=label, after=after, limit=limit
    )
    return _answer(page)


@router.get("/items/{item_id}", response_model=AnyItem)
def get_item(run_id: RunId, run: KnownRun, item_id: ItemId, context: Context) -> Response:
    """Return one item with its result."""
    return _answer(context.ledger.items.get(run_id, item_id, METHODS[run.kind].item))


@router.get("/results", response_class=StreamingResponse, responses={200: {"content": {MEDIA_TYPE: {}}}})
def stream_results(
    run_id: RunId, run: KnownRun, context: Context, from_ordinal: FromOrdinal = 0
) -> StreamingResponse:
    """Stream every ended item as JSON lines; the last line has a count and a checksum."""
    lines = result_lines(context.ledger, run_id, METHODS[run.kind].item, from_ordinal=from_ordinal)
    return StreamingResponse(lines, media_type=MEDIA_TYPE)


@router.get("/summary", response_model=AnySummary)
async def summarize_run(
    request: Request, run_id: RunId, run: KnownRun, context: Context, chosen: Chosen
) -> Response:
    """Return the figures of the run as it stands, each with its interval and n; `kind` says which they are.

    Other thresholds or another percentile judge what is recorded again; no image is made.
    """
    method = METHODS[run.kind]
    view = require_choices(method, run_id, chosen)
    summary = await while_connected(request, awaited_summary(method, run_id, view, context))
    # By a thread, as it may be long.
    document = await asyncio.to_thread(summary.model_dump_json, by_alias=True)
    return Response(document, media_type="application/json")


@router.get("/report", response_class=HTMLResponse)
async def report_run(
    request: Request, run_id: RunId, run: KnownRun, context: Context, chosen: Chosen, part: Part = "whole"
) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    method = METHODS[run.kind]
    view = require_choices(method, run_id, chosen)
    report = await while_connected(request, awaited_report(method, run_id, view, context))
    return HTMLResponse(first_screen(report) if part == "first-screen" else report, headers=REPORT_HEADERS)


@router.get("/export", response_class=StreamingResponse, responses=EXPORT_CONTENT)
def export_run(
    run_id: RunId,
    run: KnownRun,
    context: Context,
    chosen: Chosen,
    layout: Layout = "imagefolder",
    dropped: Dropped = False,
    found: Found = False,
) -> StreamingResponse:
    """Export the kept images with their provenance and a card, as a tar archive."""
    method = METHODS[run.kind]
    if method.export is None:
        raise NotFound(f"run {run_id!r} is a {run.kind}, which has no images of its own to export")
    view = require_choices(method, run_id, chosen | ({"found": found} if found else {}))
    return export_response(method, run_id, layout, ExportChoice(dropped=dropped, found=found), context, view)


def _answer(body: BaseModel) -> Response:
    # Not by FastAPI, which would look for it among the items of all kinds.
    return Response(body.model_dump_json(by_alias=True), media_type="application/json")


def etag_response(run: StatusText, request: Request) -> Response:
    """Answer a run with its ETag, or 304 if the caller already has it."""
    # Weak and strong tags mean the same here, because no range of bytes is ever requested.
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if run.tag in known or "*" in known:
        return Response(status_code=304, headers={"etag": run.tag})
    return Response(run.content, media_type="application/json", headers={"etag": run.tag})
