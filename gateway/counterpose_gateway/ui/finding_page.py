"""``/ui/runs/{id}/findings/{n}``: a finding with all its images, and its proof on more of them."""

from __future__ import annotations

import math
import re
import secrets
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from counterpose_core.commands import NextStep, is_provable, next_step
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.proofs import FindingHistory, ProofCreate, is_hopeless
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.proof import finding_history, start_proof
from counterpose_gateway.reports.states import BADGES
from counterpose_gateway.routes.context import Context, GatewayContext
from counterpose_gateway.summaries.summaries import summary_of
from counterpose_gateway.ui.environment import SENT_WITH_PAGES, Form, PageRoute, page
from counterpose_gateway.ui.page_state import finding_of
from counterpose_gateway.ui.shown_run import ShownRun, finding_pair

router = APIRouter(prefix="/ui/runs/{run_id}/findings/{number}", route_class=PageRoute)

USUAL_IMAGES, MOST_IMAGES = 20, 100
KEY_BYTES = 16
_KEY = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")
CLOSED = ("holds", "test-unfit")
"""States of a finding that more images of the same kind are not asked for."""


@dataclass(frozen=True)
class ShownProof:
    """What all runs that prove a finding come to; ``refusal`` says why there can be none."""

    history: FindingHistory | None
    going: ShownRun | None
    refusal: str = ""

    @property
    def share(self) -> float:
        """How far the evidence is, from 0 to 1: it multiplies, so it is counted in powers."""
        if self.history is None or self.history.e_value <= 1.0:
            return 0.0
        return min(1.0, math.log(self.history.e_value) / math.log(self.history.e_value_needed))

    @property
    def wanted(self) -> int:
        """How many images to ask for: those that would probably decide it."""
        if self.history is None:
            return USUAL_IMAGES
        left = self.history.images_left or self.history.redraws_left or MOST_IMAGES
        return min(MOST_IMAGES, left, self.history.images_needed or USUAL_IMAGES)

    @property
    def is_proven(self) -> bool:
        """Whether the evidence is enough."""
        return self.history is not None and self.history.e_value >= self.history.e_value_needed


@router.get("")
def show_finding(request: Request, run_id: str, number: int, context: Context) -> Response:
    """Show a finding: its sentence, its figures with intervals, and every image pair with its control."""
    run = context.ledger.runs.get(run_id)
    proof = _proof(run, number, context)
    finding = finding_of(run, number, context) if proof.history is None else proof.history.finding
    pairs = [finding_pair(finding, pair, context) for pair in finding.pairs]
    return page(
        request,
        "finding.html.j2",
        shown=ShownRun(run, context.ledger.now()),
        finding=finding,
        badge=BADGES[finding.state],
        pairs=[pair for pair in pairs if pair is not None],
        proof=proof,
        may_ask=_may_ask(finding, proof),
        next_step=_next_step(run, finding, proof, context),
        is_provable=is_provable(finding),
        key=secrets.token_hex(KEY_BYTES),
    )


@router.get("/proof")
def show_proof(request: Request, run_id: str, number: int, context: Context) -> Response:
    """Show how far a proof is; when it has ended, ask for the whole page again."""
    run = context.ledger.runs.get(run_id)
    proof = _proof(run, number, context)
    if proof.going is None:
        return Response(status_code=204, headers={"hx-refresh": "true", **SENT_WITH_PAGES})
    return page(
        request, "proof_going.html.j2", shown=ShownRun(run, context.ledger.now()), number=number, proof=proof
    )


@router.post("/prove")
async def prove(run_id: str, number: int, context: Context, form: Form) -> Response:
    """Start a run that makes more pairs for the finding, and show the finding again."""
    try:
        asked = ProofCreate.model_validate_strings({"images": form.get("images", "")})
    except ValidationError as error:
        raise InvalidRequest(
            f"{form.get('images', '')[:40]!r} is not a number of images from 1 to {MOST_IMAGES}; give another"
        ) from error
    # A form that is sent twice is one request.
    key = form.get("key") or None
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidRequest("the form's key is not one that the page made; open the page again")
    await start_proof(run_id, number, asked, context, key)
    return RedirectResponse(f"/ui/runs/{run_id}/findings/{number}", 303)


def _proof(run: Run, number: int, context: GatewayContext) -> ShownProof:
    if run.state not in FINAL_RUN_STATES and run.parent is None:
        return ShownProof(None, None, "The run is still going on; what it suspects is not tested yet.")
    try:
        history = finding_history(run.id, number, context)
    except InvalidRequest as error:
        return ShownProof(None, None, error.detail)
    except NotFound:
        # A child whose parent was deleted still tells what it found.
        if run.parent is None:
            raise
        return ShownProof(None, None, "The run that this one continues was deleted.")
    now = context.ledger.now()
    going = [one.run_id for one in history.runs if one.state not in FINAL_RUN_STATES]
    return ShownProof(history, ShownRun(context.ledger.runs.get(going[0]), now) if going else None)


def _next_step(run: Run, finding: Finding, proof: ShownProof, context: GatewayContext) -> NextStep | None:
    """What cards and terminal name as the next step, by what is left of the images now."""
    history = proof.history
    # No proof is made of two conditions; of any other finding without a history, nothing can be made.
    is_possible = history is not None or bool(finding.conjunction)
    if not is_possible or proof.going is not None or run.state not in FINAL_RUN_STATES:
        return None
    known: dict[str, object] = {}
    if history is not None and history.images_left is not None:
        known["pairs_left"] = {finding.number: history.images_left or history.redraws_left}
        known["least_pairs"] = {finding.number: history.least_images}
        hopeless = is_hopeless(history.images_needed, history.chance)
        known["hopeless"] = [finding.number] if hopeless else []
    summary = summary_of(STRESS_TEST, run.id, None, context)
    return next_step(summary.model_copy(update=known), finding)


def _may_ask(finding: Finding, proof: ShownProof) -> bool:
    if proof.history is None or not proof.history.is_open or proof.going is not None or proof.is_proven:
        return False
    # An operation that its run decided on all classes is not proven again.
    is_decided = not finding.object_class and finding.state != "cannot-tell"
    return not is_decided and finding.state not in CLOSED
