"""``/ui``: the runs of all kinds, newest first, with what each shows."""

from __future__ import annotations

import datetime as dt
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from counterpose_core.contract.runs import Run
from counterpose_core.errors import NotFound
from counterpose_core.kinds import KINDS
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.routes.context import After, Context, GatewayContext
from counterpose_gateway.routes.runs import OfDataset, OfKind, OfState
from counterpose_gateway.ui.environment import PageRoute, page
from counterpose_gateway.ui.page_state import Pages, PageState
from counterpose_gateway.ui.shown_run import ShownRun

router = APIRouter(route_class=PageRoute)

RUNS_OF_A_PAGE = 30

Family = tuple[Run, list[Run]]
"""A run and those that continue it, oldest first."""


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
    return page(request, template, **shown, filters=kept, after=after, kinds=KINDS, deleted=deleted)


def _listed(
    context: GatewayContext, pages: PageState, after: str | None, filters: dict[str, Any]
) -> dict[str, Any]:
    found = context.ledger.runs.page(**filters, after=after, limit=RUNS_OF_A_PAGE)
    now = context.ledger.now()
    # Of the runs in a state, each stands for itself: the others of its family may be in another.
    alone: list[Family] = [(run, []) for run in found.runs]
    families = alone if filters["state"] else _families(found.runs, after, filters["dataset"], context)
    every = [run for first, children in families for run in (first, *children)]
    return {
        "runs": [ShownRun(first, now) for first, _ in families],
        "children": {first.id: [ShownRun(run, now) for run in children] for first, children in families},
        "going": any(run.state not in FINAL_RUN_STATES for run in every),
        "headlines": pages.headlines.of(every, context),
        "older": found.after,
        "datasets": [] if found.runs or any(filters.values()) else context.ledger.datasets.all(),
    }


def _families(
    found: list[Run], after: str | None, dataset: str | None, context: GatewayContext
) -> list[Family]:
    """The listed runs by the runs that they continue: a family stands where its newest listed run would.

    One whose newest run is newer than the first of a later page stands on an earlier page already.
    """
    firsts = {one.id: one for one in (_first_of_family(run, context) for run in found)}
    members: dict[str, list[Run]] = {run_id: [] for run_id in firsts}
    family_of = dict(zip(firsts, firsts, strict=True))
    level = list(firsts)
    while level and (children := context.ledger.runs.children(*level)):
        for child in children:
            family_of[child.id] = family_of[str(child.parent)]
            members[family_of[child.id]].append(child)
        level = [child.id for child in children]
    families = [(one, members[one.id]) for one in firsts.values()]
    if after is None:
        return families

    def newest(one: Run, children: list[Run]) -> tuple[dt.datetime, str]:
        # A proof may have its images from another dataset, and is in another list then.
        return max(_place(run) for run in (one, *children) if dataset in (None, run.dataset))

    return [family for family in families if newest(*family) <= _place(found[0])]


def _place(run: Run) -> tuple[dt.datetime, str]:
    """Its place in the list."""
    return run.created_at, run.id


def _first_of_family(run: Run, context: GatewayContext) -> Run:
    while run.parent is not None:
        try:
            run = context.ledger.runs.get(run.parent)
        except NotFound:  # it was deleted
            break
    return run
