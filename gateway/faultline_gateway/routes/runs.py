"""What every kind of run has in common over HTTP: list, follow, stop, take up again, read items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from sse_starlette import EventSourceResponse

from faultline_core.contract.runs import PageOfItems, Run, RunItem, RunList
from faultline_core.types import RunKind
from faultline_gateway.conditional import tagged
from faultline_gateway.parts import After, PageSize, Parts
from faultline_gateway.progress import LONGEST_WAIT_SECONDS, event_response, first_event_id, wait_for_end
from faultline_gateway.results import MEDIA_TYPE, result_lines
from faultline_gateway.strict_json import StrictRoute

RUN_RETRY_AFTER = "2"
WAIT = Query(alias="timeout", ge=0, le=LONGEST_WAIT_SECONDS)


def run_router(kind: RunKind, shape: type[RunItem[Any]]) -> APIRouter:
    """Make the router of a kind of run, with all routes that do not depend on what it makes.

    A run of another kind is not found under it.
    """
    noun = kind.replace("-", " ")
    router = APIRouter(
        prefix=f"/v1/{kind}s",
        tags=[f"{noun}s"],
        route_class=StrictRoute,
        dependencies=[Depends(_of_kind(kind))],
    )
    _add_verbs(router, noun)
    _add_readers(router, kind, noun, shape)
    return router


def _of_kind(kind: RunKind) -> Callable[..., None]:
    def check(request: Request, parts: Parts) -> None:
        run_id = request.path_params.get("run_id")
        if run_id is not None:
            parts.ledger.run(run_id, kind)

    return check


def accepted(run: Run, router: APIRouter, response: Response) -> Run:
    """Say where a run that was just created is, and when to look again."""
    response.headers["location"] = f"{router.prefix}/{run.id}"
    response.headers["retry-after"] = RUN_RETRY_AFTER
    return run


def _add_verbs(router: APIRouter, noun: str) -> None:
    # The verbs come before the bare id, which would take "id:wait" for an id.
    @router.get("/{run_id}:wait", name=f"Wait for a {noun}")
    async def wait(run_id: str, parts: Parts, seconds: Annotated[float, WAIT] = 25.0) -> Run:
        """Answer when the run has ended or the time is up, whichever comes first."""
        return await wait_for_end(parts.ledger, run_id, seconds)

    @router.post("/{run_id}:cancel", name=f"Cancel a {noun}")
    def cancel(run_id: str, parts: Parts) -> Run:
        """Stop the run; what is finished is kept."""
        return parts.ledger.cancel(run_id)

    @router.post("/{run_id}:resume", name=f"Resume a {noun}")
    def resume(run_id: str, parts: Parts) -> Run:
        """Take failed and cancelled items up again."""
        return parts.ledger.resume(run_id)


def _add_readers(router: APIRouter, kind: RunKind, noun: str, shape: type[RunItem[Any]]) -> None:
    @router.get("", name=f"List {noun}s")
    def list_runs(parts: Parts, after: After = None, limit: PageSize = 50) -> RunList:
        """Page through the runs, newest first."""
        return parts.ledger.run_list(kind=kind, after=after, limit=limit)

    @router.get("/{run_id}", response_model=Run, name=f"Get a {noun}")
    def get_run(run_id: str, parts: Parts, request: Request) -> Response:
        """Describe a run; with If-None-Match only when it has changed."""
        return tagged(parts.ledger.run(run_id), request)

    @router.get(
        "/{run_id}/events",
        response_class=EventSourceResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
        name=f"Follow a {noun}",
    )
    def follow(
        run_id: str, parts: Parts, last_event_id: Annotated[int | None, Header(ge=0)] = None
    ) -> EventSourceResponse:
        """Stream progress as server-sent events, from after Last-Event-ID or from now on."""
        after = first_event_id(parts.ledger, run_id, last_event_id)
        return event_response(parts.ledger, run_id, after=after)

    @router.get(
        "/{run_id}/items",
        response_model=PageOfItems[shape],  # type: ignore[valid-type]  # known at run time only
        name=f"List the items of a {noun}",
    )
    def list_items(run_id: str, parts: Parts, after: After = None, limit: PageSize = 100) -> Any:
        """Page through the items in planned order; pages never repeat or skip while the run goes on."""
        return parts.ledger.item_page(run_id, shape, after=after, limit=limit)

    @router.get("/{run_id}/results", response_class=StreamingResponse, name=f"Stream the results of a {noun}")
    def get_results(
        run_id: str, parts: Parts, from_ordinal: Annotated[int, Query(alias="from", ge=0, lt=2**31)] = 0
    ) -> StreamingResponse:
        """Return every ended item as JSON lines, closed by a line with count and checksum."""
        lines = result_lines(parts.ledger, run_id, shape, from_ordinal=from_ordinal)
        return StreamingResponse(lines, media_type=MEDIA_TYPE)
