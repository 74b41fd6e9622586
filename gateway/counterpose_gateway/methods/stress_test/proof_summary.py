"""The summary of a child run: its verdict is the one finding that it proves, with the pairs of all runs."""

from __future__ import annotations

from collections.abc import Hashable

from counterpose_core.contract.findings import ClassifierVerdict
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.stress_test.outlook import Outlook, outlook_of
from counterpose_gateway.methods.stress_test.summary.headline import headline
from counterpose_gateway.methods.stress_test.summary.joined_runs import (
    JoinedFinding,
    joined_finding,
    proof_of,
    proving_runs,
)
from counterpose_gateway.runs.context import RunLedger


def revision_of_proof(run: Run, ledger: RunLedger) -> Hashable:
    """Return the newest event of each other run that a child run joins; None for a run that is no child."""
    proof = proof_of(run)
    if proof is None:
        return None
    others = (each.id for each in proving_runs(proof, ledger, until=run) if each.id != run.id)
    return tuple(ledger.last_event(each).id for each in others)


def with_proof(summary: StressTestSummary, run: Run, ledger: RunLedger) -> StressTestSummary:
    """Return a child run's summary with the joined finding as its verdict; any other as it is.

    Children that were created later are left out, so that an ended child tells the same for ever.
    """
    proof = proof_of(run)
    if proof is None:
        return summary
    joined = joined_finding(proof, ledger, proving_runs(proof, ledger, until=run))
    finding = joined.finding
    outlook = outlook_of(joined, run.dataset, StressTestConfig.model_validate(run.resolved_config), ledger)
    verdict = ClassifierVerdict(
        classifier=finding.classifier, state=finding.state, finding=finding.number, sentence=finding.sentence
    )
    lines = [headline([verdict]), finding.sentence, *_about(joined, outlook, run), *_unfinished(summary, run)]
    pairs_left = {} if outlook.left is None else {finding.number: outlook.left or outlook.draws}
    update = {
        "findings": [finding],
        "verdicts": [verdict],
        "verdict": "\n".join(lines),
        "insights": [],
        "pairs_left": pairs_left,
        "least_pairs": {finding.number: outlook.least} if pairs_left else {},
    }
    return summary.model_copy(update=update)


def _about(joined: JoinedFinding, outlook: Outlook, run: Run) -> list[str]:
    """Which finding of which run it is, and how strong the evidence of all runs is."""
    proof, evidence, n = joined.proof, joined.evidence, len(joined.pairs)
    with_pairs = sum(bool(each.pairs) for each in joined.runs)
    number, parent = proof.finding.number, proof.parent[:8]
    said = [f"This run goes on with finding {number} of run {parent}."]
    if all(each.run.id != proof.parent for each in joined.runs):
        said.append("That run was deleted, and its pairs with it.")
    # Where none is left, the last sentence says what to do.
    said += _few(joined, run) if outlook.is_offered or not outlook.sentence else []
    if n:
        pairs, runs = _many(n, "pair"), _many(with_pairs, "run")
        said.append(
            f"Evidence of {pairs} in {runs}: {in_digits(evidence.e_value)}; "
            f"{in_digits(evidence.needed)} proves it, as one of {_many(proof.family, 'finding')}."
        )
    return [*said, *filter(None, [outlook.sentence])]


def _few(joined: JoinedFinding, run: Run) -> list[str]:
    """Why a child has fewer pairs than were asked for."""
    own = proof_of(run)
    planned = sum(each.planned for each in joined.runs if each.run.id == run.id)
    if own is None or own.drawn or run.state not in FINAL_RUN_STATES or planned >= own.images:
        return []
    return [
        f"Dataset {run.dataset!r} had {_many(planned, 'image')} left to make the change in, "
        f"not {own.images}; add images, or name another dataset."
    ]


def _unfinished(summary: StressTestSummary, run: Run) -> list[str]:
    if run.state not in FINAL_RUN_STATES:
        return ["The run has not ended; its pairs count when it has."]
    lost = summary.counts["failed"] + summary.counts["cancelled"]
    return [f"{lost} of {summary.counts['planned']} planned items failed or were cancelled."] if lost else []


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_digits(evidence: float) -> str:
    """An e-value with two digits below ten, and with thousands from there on."""
    if evidence >= 1e6:
        return "over 1,000,000"
    return f"{evidence:,.0f}" if evidence >= 10 else f"{evidence:.2g}"
