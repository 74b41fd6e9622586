"""The routes of every kind of run: create, list, follow, cancel, resume, read items and figures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from sse_starlette import EventSourceResponse

from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.contract.runs import PageOfItems, Run, RunItem, RunList, RunRename, RunResume
from counterpose_core.kinds import KINDS, Kind
from counterpose_core.types import ItemKind, ItemState, RunKind, RunState
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.routes.context import (
    IN_DIGITS,
    After,
    Context,
    GatewayContext,
    IdempotencyKey,
    PageSize,
    RunId,
)
from counterpose_gateway.routes.exports import EXPORT_CONTENT, Dropped, Layout, export_response
from counterpose_gateway.routes.reports import Part, report_response, summary_response
from counterpose_gateway.runs.method import AnyMethod, ExportChoice
from counterpose_gateway.runs.progress import (
    LONGEST_WAIT_SECONDS,
    MEDIA_TYPE,
    event_response,
    first_event_id,
    result_lines,
    wait_for_end,
)
from counterpose_gateway.runs.status import StatusText
from counterpose_gateway.runs.submission import functions_again, submit

RUN_RETRY_AFTER = "2"
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


async def _no_choice() -> None:
    """A reader of most summaries has no choice."""


async def _of_dropped(dropped: Dropped = False) -> ExportChoice:
    return ExportChoice(dropped=dropped)


def prefix_of(kind: Kind) -> str:
    """Return the address of the runs of a kind."""
    return f"/v1/{kind.path}"


def run_router(
    method: AnyMethod,
    view: Callable[..., Any] = _no_choice,
    choice: Callable[..., Awaitable[ExportChoice]] = _of_dropped,
) -> APIRouter:
    """Make the router of a method's runs, with all routes that every method has.

    A run of another kind is not found under it.

    Args:
        method: the method.
        view: reads the reader's choice for a summary from the address.
        choice: reads from the address which images to export.
    """
    kind = KINDS[method.kind]
    noun = kind.title.lower()
    router = APIRouter(
        prefix=prefix_of(kind),
        tags=[f"{noun}s"],
        route_class=StrictRoute,
        dependencies=[Depends(_of_kind(kind))],
    )
    _add_verbs(router, noun)
    _add_changes(router, noun)
    _add_readers(router, method.kind, noun)
    _add_item_readers(router, noun, method.item)
    _add_create(router, method)
    _add_figures(router, method, view)
    if method.export is not None:
        _add_export(router, method, view, choice)
    return router


def _of_kind(kind: Kind) -> Callable[..., Awaitable[None]]:
    async def check(request: Request, context: Context) -> None:
        if request.method == "POST" and request.url.path == prefix_of(kind):
            await _require_quota(request, context)
        run_id = request.path_params.get("run_id")
        if run_id is not None:
            # Kept for the route: the row is read once a request.
            request.state.run = await context.status.read(run_id, kind.name)

    return check


async def _require_quota(request: Request, context: GatewayContext) -> None:
    """Refuse a new run of a tenant without quota, whatever else is wrong with the request."""
    key = request.headers.get(IDEMPOTENCY_HEADER)
    if key is None or not await asyncio.to_thread(context.ledger.has_run_for_key, key):
        await asyncio.to_thread(context.ledger.require_quota)


def _run_of(request: Request) -> StatusText:
    run = request.state.run
    assert isinstance(run, StatusText)  # the check of the router put it there
    return run


def accepted(run: Run, router: APIRouter, response: Response) -> Run:
    """Set the location of a new run, and the time after which to poll it."""
    response.headers["location"] = f"{router.prefix}/{run.id}"
    response.headers["retry-after"] = RUN_RETRY_AFTER
    return run


def _add_verbs(router: APIRouter, noun: str) -> None:
    # The verbs come before the bare id, which would take "id:wait" for an id.
    @router.get("/{run_id:segment}:wait", response_model=Run, name=f"Wait for a {noun}")
    async def wait(run_id: RunId, context: Context, seconds: Seconds = 25.0) -> Response:
        """Answer when the run has ended or the timeout has passed, whichever comes first."""
        run = await wait_for_end(context.followed, context.status, run_id, seconds)
        return Response(run.content, media_type="application/json")

    @router.post("/{run_id:segment}:cancel", name=f"Cancel a {noun}")
    def cancel(run_id: RunId, context: Context) -> Run:
        """Cancel the run; finished items are kept."""
        return context.ledger.cancel(run_id)

    @router.post("/{run_id:segment}:resume", name=f"Resume a {noun}")
    def resume(run_id: RunId, context: Context, body: RunResume | None = None) -> Run:
        """Resume the run: failed and cancelled items are tried again."""
        functions = {} if body is None else functions_again(run_id, body, context)
        return context.ledger.resume(run_id, functions)


def _add_changes(router: APIRouter, noun: str) -> None:
    @router.patch("/{run_id:segment}", name=f"Rename a {noun}")
    def rename(run_id: RunId, body: RunRename, context: Context) -> Run:
        """Give the run a name for people; its id stays."""
        return context.ledger.rename(run_id, body.name)

    @router.delete("/{run_id:segment}", status_code=204, name=f"Delete a {noun}")
    def delete(run_id: RunId, context: Context) -> None:
        """Delete an ended run with its items; images that no other run or dataset has go within hours."""
        context.delete_run(run_id)


def _add_readers(router: APIRouter, kind: RunKind, noun: str) -> None:
    @router.get("", name=f"List {noun}s")
    def list_runs(
        context: Context,
        state: OfState = None,
        dataset: OfDataset = None,
        parent: OfParent = None,
        after: After = None,
        limit: PageSize = 50,
    ) -> RunList:
        """List the runs, newest first, a page at a time."""
        return context.ledger.run_list(
            kind=kind, state=state, dataset=dataset, parent=parent, after=after, limit=limit
        )

    @router.get(
        "/{run_id:segment}",
        response_model=Run,
        responses={304: {"description": "The run is unchanged since the state that If-None-Match names."}},
        openapi_extra={"parameters": [IF_NONE_MATCH]},
        name=f"Get a {noun}",
    )
    async def get_run(run_id: RunId, request: Request) -> Response:
        """Return a run; with If-None-Match, answer 304 while it is unchanged."""
        return etag_response(_run_of(request), request)

    @router.get(
        "/{run_id:segment}/events",
        response_class=EventSourceResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
        name=f"Follow a {noun}",
    )
    async def follow(
        run_id: RunId, context: Context, last_event_id: LastEventId = None
    ) -> EventSourceResponse:
        """Stream progress as server-sent events, from the event after Last-Event-ID or from now on."""
        after = await first_event_id(context.followed, run_id, last_event_id)
        return event_response(context.followed, run_id, after=after)


def _add_item_readers(router: APIRouter, noun: str, shape: type[RunItem[Any]]) -> None:
    @router.get(
        "/{run_id:segment}/items",
        response_model=PageOfItems[shape],  # type: ignore[valid-type]  # known at run time only
        name=f"List the items of a {noun}",
    )
    def list_items(
        run_id: RunId,
        context: Context,
        kind: ItemsOfKind = None,
        state: ItemsInState = None,
        label: ItemsOfClass = None,
        after: After = None,
        limit: PageSize = 100,
    ) -> Any:
        """List the items in planned order, a page at a time; pages never repeat or skip an item.

        Of a kind, state or class alone, pages before the last may be short or empty: go on until `after` is
        null.
        """
        return context.ledger.item_page(
            run_id, shape, kind=kind, state=state, label=label, after=after, limit=limit
        )

    @router.get("/{run_id:segment}/items/{item_id}", response_model=shape, name=f"Get an item of a {noun}")
    def get_item(run_id: RunId, item_id: ItemId, context: Context) -> Any:
        """Return one item with its result."""
        return context.ledger.item(run_id, item_id, shape)

    @router.get(
        "/{run_id:segment}/results",
        response_class=StreamingResponse,
        responses={200: {"content": {MEDIA_TYPE: {}}}},
        name=f"Stream the results of a {noun}",
    )
    def get_results(run_id: RunId, context: Context, from_ordinal: FromOrdinal = 0) -> StreamingResponse:
        """Stream every ended item as JSON lines; the last line has a count and a checksum."""
        lines = result_lines(context.ledger, run_id, shape, from_ordinal=from_ordinal)
        return StreamingResponse(lines, media_type=MEDIA_TYPE)


def _add_create(router: APIRouter, method: AnyMethod) -> None:
    async def create(body: Any, context: Context, response: Response, key: IdempotencyKey = None) -> Run:
        """Create a run; it is durable before the answer, and a worker takes it up."""
        return accepted(await submit(method, body, context, key), router, response)

    create.__annotations__["body"] = method.create
    router.post("", status_code=202, name=_named("create", method))(create)


def _add_figures(router: APIRouter, method: AnyMethod, view: Callable[..., Any]) -> None:
    async def summarize(request: Request, run_id: RunId, context: Context, view: Any) -> Response:
        """Return the figures of the run as it stands, each with its interval and n."""
        return await summary_response(request, method, run_id, context, view)

    async def report(
        request: Request, run_id: RunId, context: Context, view: Any, part: Part = "whole"
    ) -> HTMLResponse:
        """Return the report as one self-contained HTML document."""
        return await report_response(request, method, run_id, context, view, part=part)

    for route in (summarize, report):
        route.__annotations__["view"] = Annotated[Any, Depends(view)]
    router.get("/{run_id:segment}/summary", response_model=method.summary, name=_named("summarize", method))(
        summarize
    )
    router.get("/{run_id:segment}/report", response_class=HTMLResponse, name=_named("report", method))(report)


def _add_export(
    router: APIRouter, method: AnyMethod, view: Callable[..., Any], choice: Callable[..., Any]
) -> None:
    def export(
        run_id: RunId, context: Context, choice: Any, view: Any, layout: Layout = "imagefolder"
    ) -> StreamingResponse:
        """Export the kept images with their provenance and a card, as a tar archive."""
        return export_response(method, run_id, layout, choice, context, view)

    export.__annotations__ |= {
        "choice": Annotated[Any, Depends(choice)],
        "view": Annotated[Any, Depends(view)],
    }
    router.get(
        "/{run_id:segment}/export",
        response_class=StreamingResponse,
        responses=EXPORT_CONTENT,
        name=_named("export", method),
    )(export)


def _named(verb: str, method: AnyMethod) -> str:
    return f"{verb}_{method.kind.replace('-', '_')}"


def etag_response(run: StatusText, request: Request) -> Response:
    """Answer a run with its ETag, or 304 if the caller already has it."""
    # Weak and strong tags mean the same here, because no range of bytes is ever requested.
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if run.tag in known or "*" in known:
        return Response(status_code=304, headers={"etag": run.tag})
    return Response(run.content, media_type="application/json", headers={"etag": run.tag})
