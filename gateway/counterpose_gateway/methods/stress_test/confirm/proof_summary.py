"""The summary of a child run: its verdict is the one finding that it proves, with the pairs of all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpose_core.contract.findings import ClassifierVerdict
from counterpose_core.contract.proofs import OperationProof
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.stress_test.proof import Evidence
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.stress_test.confirm.outlook import Outlook, outlook_of
from counterpose_gateway.methods.stress_test.summary.headline import headline
from counterpose_gateway.methods.stress_test.summary.joined_runs import (
    JoinedFinding,
    joined_finding,
    proof_of,
    proving_runs,
)
from counterpose_gateway.methods.stress_test.transforms.proof_summary import (
    JoinedOperation,
    as_joined,
    joined_operation,
)
from counterpose_gateway.reports.numbers import counted
from counterpose_gateway.runs.recorded import recorded_config

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


def with_proof(summary: StressTestSummary, run: Run, ledger: Ledger) -> StressTestSummary:
    """Return a child run's summary with the joined finding as its verdict; any other as it is.

    Children that were created later are left out, so that an ended child tells the same for ever.
    """
    proof = proof_of(run)
    if proof is None:
        return summary
    runs = proving_runs(proof, ledger, until=run)
    update: dict[str, object]
    if isinstance(proof, OperationProof):
        operation = joined_operation(proof, ledger, runs)
        state, sentence = operation.state, operation.sentence
        lines = _about_operation(operation, run)
        update = {"transforms": summary.transforms and as_joined(summary.transforms, operation)}
    else:
        joined = joined_finding(proof, ledger, runs)
        finding = joined.finding
        state, sentence = finding.state, finding.sentence
        outlook = outlook_of(joined, run.dataset, recorded_config(StressTestConfig, run), ledger)
        lines = _about(joined, outlook, run)
        pairs_left = {} if outlook.left is None else {finding.number: outlook.left or outlook.draws}
        least = {finding.number: outlook.least} if pairs_left else {}
        update = {"findings": [finding], "insights": [], "pairs_left": pairs_left, "least_pairs": least}
        update["hopeless"] = [finding.number] if outlook.is_hopeless else []
    verdict = ClassifierVerdict(
        classifier=proof.classifier, state=state, finding=proof.number, sentence=sentence
    )
    told = "\n".join([headline([verdict]), sentence, *lines, *_unfinished(summary, run)])
    return summary.model_copy(update={"verdicts": [verdict], "verdict": told, **update})


def _about(joined: JoinedFinding, outlook: Outlook, run: Run) -> list[str]:
    """Which finding of which run it is, and how strong the evidence of all runs is."""
    proof, n = joined.proof, len(joined.pairs)
    said = [f"This run goes on with finding {proof.number} of run {proof.parent[:8]}."]
    if all(each.run.id != proof.parent for each in joined.runs):
        said.append("That run was deleted, and its pairs with it.")
    # Where none is left, the last sentence says what to do.
    said += _few(joined, run) if outlook.is_offered or not outlook.sentence else []
    if n:
        with_pairs = sum(bool(each.pairs) for each in joined.runs)
        said.append(
            _strength(joined.evidence, counted(n, "pair"), with_pairs, counted(proof.family, "finding"))
        )
    return [*said, *filter(None, [outlook.sentence])]


def _about_operation(joined: JoinedOperation, run: Run) -> list[str]:
    proof = joined.proof
    said = [f"This run goes on with finding {proof.number} of run {proof.parent[:8]}, on fresh images alone."]
    if joined.number:
        among = f"{proof.family} {'classes, ' if proof.object_class else ''}operations and levels"
        with_images = sum(bool(each.images) for each in joined.runs)
        said.append(_strength(joined.evidence, counted(joined.number, "image"), with_images, among))
    fresh = run.request_counts.total
    if run.state in FINAL_RUN_STATES and fresh < proof.images:
        of = f" of {proof.object_class!r}" if proof.object_class else ""
        said.append(_short(run, f"{counted(fresh, 'fresh image')}{of}", proof.images))
    return said


def _strength(evidence: Evidence, pairs: str, runs: int, among: str) -> str:
    return (
        f"Evidence of {pairs} in {counted(runs, 'run')}: {in_digits(evidence.e_value)}; "
        f"{in_digits(evidence.needed)} proves it, as one of {among}."
    )


def _few(joined: JoinedFinding, run: Run) -> list[str]:
    """Why a child has fewer pairs than were asked for."""
    planned, proof = sum(each.planned for each in joined.runs if each.run.id == run.id), joined.proof
    if proof.drawn or run.state not in FINAL_RUN_STATES or planned >= proof.images:
        return []
    return [_short(run, f"{counted(planned, 'image')} left to make the change in", proof.images)]


def _short(run: Run, had: str, asked: int) -> str:
    return f"Dataset {run.dataset!r} had {had}, not {asked}; add images, or name another dataset."


def _unfinished(summary: StressTestSummary, run: Run) -> list[str]:
    if run.state not in FINAL_RUN_STATES:
        return ["The run has not ended; its pairs count when it has."]
    lost = summary.counts["failed"] + summary.counts["cancelled"]
    return [f"{lost} of {summary.counts['planned']} planned items failed or were cancelled."] if lost else []


def in_digits(evidence: float) -> str:
    """An e-value with two digits below ten, and with thousands from there on."""
    if evidence >= 1e6:
        return "over 1,000,000"
    return f"{evidence:,.0f}" if evidence >= 10 else f"{evidence:.2g}"
