"""What a user does with a run on the pages: name, cancel, resume and delete it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from counterpose_core.contract.runs import RunRename
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.routes.context import Context
from counterpose_gateway.ui.environment import page
from counterpose_gateway.ui.forms import Form
from counterpose_gateway.ui.page_route import PageRoute
from counterpose_gateway.ui.shown_run import ShownRun

router = APIRouter(prefix="/ui/runs/{run_id}", route_class=PageRoute)


@router.post("/cancel")
def cancel(run_id: str, context: Context) -> Response:
    """Cancel a run and show it."""
    context.ledger.runs.cancel(run_id)
    return RedirectResponse(f"/ui/runs/{run_id}", 303)


@router.post("/resume")
def resume(run_id: str, context: Context) -> Response:
    """Resume a run and show it."""
    context.ledger.runs.resume(run_id)
    return RedirectResponse(f"/ui/runs/{run_id}", 303)


@router.post("/rename")
def rename(run_id: str, context: Context, form: Form) -> Response:
    """Give a run a name, or take it away, and show it."""
    try:
        body = RunRename(name=form.get("name", "").strip() or None)
    except ValidationError as error:
        raise InvalidRequest("a name has at most 120 characters, in one line; shorten it") from error
    context.ledger.runs.rename(run_id, body.name)
    return RedirectResponse(f"/ui/runs/{run_id}", 303)


@router.get("/delete")
def ask_to_delete(request: Request, run_id: str, context: Context) -> Response:
    """Ask whether a run is really to be deleted."""
    shown = ShownRun(context.ledger.runs.get(run_id), context.ledger.now())
    children = context.ledger.runs.children(run_id)
    return page(request, "delete.html.j2", shown=shown, children=children)


@router.post("/delete")
def delete(run_id: str, context: Context) -> Response:
    """Delete a run and show the others."""
    context.delete_run(run_id)
    return RedirectResponse("/ui?deleted=true", 303)
