"""``/ui``: the runs of all kinds, newest first, with what each shows."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from counterpose_gateway.methods import METHODS
from counterpose_gateway.routes.context import After, Context, GatewayContext
from counterpose_gateway.routes.every_run import OfKind
from counterpose_gateway.routes.runs import OfDataset, OfState
from counterpose_gateway.ui.environment import page
from counterpose_gateway.ui.page_route import PageRoute
from counterpose_gateway.ui.page_state import Pages, PageState
from counterpose_gateway.ui.shown_run import ShownRun

router = APIRouter(route_class=PageRoute)

RUNS_OF_A_PAGE = 30


@router.get("/")
def go_to_pages() -> Response:
    """Lead a browser that opens the gateway to its pages."""
    return RedirectResponse("/ui", 303)


@router.get("/ui")
def list_runs(
    request: Request,
    context: Context,
    pages: Pages,
    kind: OfKind = None,
    state: OfState = None,
    dataset: OfDataset = None,
    after: After = None,
    deleted: bool = False,
) -> Response:
    """Show a page of runs; a part of it alone where the page's script asks for it."""
    filters = {"kind": kind, "state": state, "dataset": dataset}
    shown = _listed(context, pages, after, filters)
    kept = {name: value for name, value in filters.items() if value is not None}
    # Only the table changes while someone looks at it.
    template = "run_table.html.j2" if "hx-request" in request.headers else "run_list.html.j2"
    return page(request, template, **shown, filters=kept, after=after, methods=METHODS, deleted=deleted)


def _listed(
    context: GatewayContext, pages: PageState, after: str | None, filters: dict[str, Any]
) -> dict[str, Any]:
    found = context.ledger.run_list(**filters, after=after, limit=RUNS_OF_A_PAGE)
    now = context.ledger.now()
    return {
        "runs": [ShownRun(run, now) for run in found.runs],
        "headlines": pages.headlines.of(found.runs, context),
        "older": found.after,
        "datasets": [] if found.runs or any(filters.values()) else context.ledger.dataset_list(),
    }
