"""``/ui/runs/{id}``: a run as it goes, or with its report when it has ended, and what a user does with it.

What a user does with a run on the pages: name, cancel, resume and delete it.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError

from counterpose_core.contract.baselines import ClassifierBaseline
from counterpose_core.contract.runs import Item, Run, RunRename
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.http.in_flight import while_connected
from counterpose_gateway.methods import METHODS
from counterpose_gateway.routes.context import Context, GatewayContext
from counterpose_gateway.routes.runs import REPORT_HEADERS
from counterpose_gateway.summaries.summaries import awaited_report
from counterpose_gateway.ui.environment import (
    REPORT_PAGE_POLICY,
    SENT_WITH_PAGES,
    TEMPLATES,
    Form,
    PageRoute,
    page,
    part,
)
from counterpose_gateway.ui.page_state import Pages, PageState, listed_findings
from counterpose_gateway.ui.shown_run import ShownPair, ShownRun, finding_pair, newest_pairs

router = APIRouter(prefix="/ui/runs/{run_id}", route_class=PageRoute)

_FINDING = re.compile(
    r'(<article class="card finding(?: hero)?" id="finding-(\d+)">(?:(?!</article>).)*?)'
    r"(</div>\s*</article>)",
    re.DOTALL,
)

SHOWN_SUSPICIONS = 3
SHOWN_NEWEST = 6
WORTH_SHOWING = ("breaks", "suspected")


@router.get("")
async def show_run(request: Request, run_id: str, context: Context, pages: Pages) -> Response:
    """Show a run: its progress and first suspicions while it goes, its report when it has ended."""
    shown, children = await asyncio.to_thread(_found, run_id, context)
    about: dict[str, Any] = {"shown": shown, "children": children}
    if shown.unknown:
        return await asyncio.to_thread(page, request, "run_live.html.j2", **about)
    if shown.has_ended:
        report = await _report(request, shown.run, context)
        return await asyncio.to_thread(_ended, request, report, run_id, about)
    return await asyncio.to_thread(
        lambda: page(request, "run_live.html.j2", **about, **_live(shown.run, context, pages))
    )


def _found(run_id: str, context: GatewayContext) -> tuple[ShownRun, list[Run]]:
    run = context.ledger.runs.get(run_id)
    return ShownRun(run, context.ledger.now()), context.ledger.runs.children(run_id)


def _ended(request: Request, report: str, run_id: str, about: dict[str, Any]) -> Response:
    body = report_body(report, run_id)
    return page(request, "run_ended.html.j2", policy=REPORT_PAGE_POLICY, body=body, **about)


@router.get("/live")
async def show_live(request: Request, run_id: str, context: Context, pages: Pages) -> Response:
    """Show the part of a run's page that changes; when the run has ended, ask for the whole page again."""
    now = await context.status.read(run_id)
    if now.has_ended:
        return Response(status_code=204, headers={"hx-refresh": "true", **SENT_WITH_PAGES})

    def make() -> str:
        run = context.ledger.runs.get(run_id)
        shown = ShownRun(run, context.ledger.now())
        return TEMPLATES.get_template("live.html.j2").render(shown=shown, **_live(run, context, pages))

    return part(await pages.parts.of(run_id, now.tag, make))


@router.get("/report")
async def show_report(request: Request, run_id: str, context: Context) -> HTMLResponse:
    """Show the report alone, as the file that one can keep."""
    run = await asyncio.to_thread(context.ledger.runs.get, run_id)
    document = await _report(request, run, context)
    return HTMLResponse(document, headers=SENT_WITH_PAGES | REPORT_HEADERS)


async def _report(request: Request, run: Run, context: GatewayContext) -> str:
    """The report of a run, kept until the run changes: its images are encoded once.

    A large one takes a minute, so that whoever waits holds no thread: there are forty for all requests.
    """
    method = METHODS[run.kind]
    report = awaited_report(method, run.id, method.view({}), context, keep=True)
    return await while_connected(request, report)


def _live(run: Run, context: GatewayContext, pages: PageState) -> dict[str, Any]:
    """What a run shows so far: a headline, its first suspicions, its newest images."""
    summary = pages.live.of(run, context)
    found: list[tuple[Any, ShownPair | None]] = []
    headline = None if summary is None else METHODS[run.kind].headline(summary)
    if isinstance(summary, StressTestSummary):
        # Its suspicions say more.
        headline = None
        worth = [one for one in listed_findings(run, context, summary) if one.state in WORTH_SHOWING]
        found = [
            (finding, finding_pair(finding, finding.pairs[0], context) if finding.pairs else None)
            for finding in worth[:SHOWN_SUSPICIONS]
        ]
    return {
        "headline": headline,
        "suspicions": found,
        "baseline": _baseline(run),
        "failure": context.ledger.items.commonest_failure(run.id),
        **_newest(run, context),
    }


def _baseline(run: Run) -> list[ClassifierBaseline]:
    """What the classifiers answered to the images as they are, of a run that says it."""
    return [ClassifierBaseline.model_validate(each) for each in run.resolved_config.get("baseline", [])]


def _newest(run: Run, context: GatewayContext) -> dict[str, Any]:
    """The newest images of a run: pairs where it changes images, else what it made."""
    method = METHODS[run.kind]
    none: dict[str, Any] = {"newest": [], "images": []}
    are_pairs = issubclass(method.item, Item)
    most = SHOWN_NEWEST if are_pairs else 2 * SHOWN_NEWEST
    for kind in method.live:
        if items := context.ledger.items.newest(run.id, method.item, kind=kind, limit=most):
            if not are_pairs:
                return none | {"images": items}
            return none | {"newest": newest_pairs(items, ShownRun(run, context.ledger.now()).models)}
    return none


def report_body(document: str, run_id: str) -> str:
    """Return what stands in the body of a report, without its script, whose file the page loads itself.

    Each finding gets a link to its page, and each item that the report names one to its own. The document is
    cut and not made again, so that page and file can never tell different things.
    """
    body = document.partition("<body>")[2].rpartition("<script>")[0]
    address = f"/ui/runs/{run_id}"
    linked = _FINDING.sub(
        rf'\1<p><a class="at" href="{address}/findings/\2">All images of this finding</a></p>\3', body
    )
    item = re.escape(run_id)
    return re.sub(
        rf"<code>({item}\.\d+)</code>",
        rf'<a class="at" href="{address}/items/\1"><code>\1</code></a>',
        linked,
    )


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
