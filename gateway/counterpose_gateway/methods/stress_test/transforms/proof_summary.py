"""An operation over several runs: the pairs of its own run and of its proofs, each photograph once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from counterpose_core.contract.findings import ClassifierVerdict, FindingState
from counterpose_core.contract.proofs import OperationProof
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.contract.transforms import OperationFigure
from counterpose_core.errors import NotFound
from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.stress_test.proof import Evidence, join
from counterpose_core.transforms.table import operation
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.stress_test.summary.headline import headline
from counterpose_gateway.methods.stress_test.transforms.operation_answers import OperationAnswers
from counterpose_gateway.methods.stress_test.transforms.process import OPERATIONS
from counterpose_gateway.runs.context import RunLedger


@dataclass
class OperationPairs:
    """What one run has of an operation at a level: losses by group (n,); none before it has ended."""

    run: Run
    planned: int
    losses: Sequence[float] | Floats = ()
    lost: int = 0
    gained: int = 0
    images: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class JoinedOperation:
    """An operation with the pairs of every run that has some."""

    proof: OperationProof
    runs: Sequence[OperationPairs]

    @property
    def evidence(self) -> Evidence:
        """What all pairs show together; valid at any stop, and corrected over the run's operations."""
        return join([each.losses for each in self.runs], self.proof.family)

    @property
    def state(self) -> FindingState:
        """What they show of the operation."""
        if self.evidence.proven:
            return "breaks"
        return "holds" if self.evidence.absent else "cannot-tell"

    @property
    def sentence(self) -> str:
        """The finding in one sentence."""
        proof, loss = self.proof, self.evidence.loss
        words = operation(proof.operation).in_words(proof.level)
        if loss.estimate is None:
            return f"No image is answered yet where it {words}."
        # Outwards: what is ruled out must not lie inside the interval.
        low, high = math.floor(100 * (loss.low or 0.0)), math.ceil(100 * (loss.high or 0.0))
        points = round(100 * loss.estimate)
        said = {
            "breaks": f"{proof.classifier} loses {points} points of accuracy where the image {words}",
            "holds": f"{proof.classifier} holds where the image {words}: a loss of "
            f"{100 * MARGIN:g} points is ruled out",
        }.get(
            self.state, f"{proof.classifier} may lose {max(0, low)} to {high} points where the image {words}"
        )
        lost, gained = sum(each.lost for each in self.runs), sum(each.gained for each in self.runs)
        return (
            f"{said}: {lost} of {self.number} images answered wrong that were right, {gained} the other way."
        )

    @property
    def number(self) -> int:
        """The images with a pair."""
        return sum(len(each.images) for each in self.runs)


def operation_runs(proof: OperationProof, ledger: RunLedger, *, until: Run | None = None) -> list[Run]:
    """Return the run that has the finding and those that prove it, the oldest first; none after ``until``."""
    runs: list[Run] = []
    with suppress(NotFound):
        runs.append(ledger.run(proof.parent, "stress-test"))
    for child in ledger.children(proof.parent):
        own = operation_proof_of(child)
        if own is not None and _key(own) == _key(proof):
            runs.append(child)
        if until is not None and child.id == until.id:
            break
    return runs


def operation_proof_of(run: Run) -> OperationProof | None:
    """What a run is to prove, or None where it proves no operation."""
    if run.kind != "stress-test":
        return None
    return StressTestConfig.model_validate(run.resolved_config).operation_proof


def _key(proof: OperationProof) -> tuple[str, str, int]:
    return proof.classifier, proof.operation, proof.level


def joined_operation(proof: OperationProof, ledger: RunLedger, runs: Sequence[Run]) -> JoinedOperation:
    """Join the pairs of the ended ``runs``: a photograph, or a group, counts in the first that has it."""
    before: set[str] = set()
    joined: list[OperationPairs] = []
    for run in runs:
        pairs = _pairs_of(run, proof, ledger, before)
        before |= pairs.groups | pairs.images
        joined.append(pairs)
    return JoinedOperation(proof, joined)


def _pairs_of(run: Run, proof: OperationProof, ledger: RunLedger, before: set[str]) -> OperationPairs:
    pairs = OperationPairs(run, run.request_counts.total)
    if run.state not in FINAL_RUN_STATES:
        return pairs
    config = StressTestConfig.model_validate(run.resolved_config)
    groups = {} if config.grouping is None else config.grouping.groups
    planned = {} if config.transforms is None else config.transforms.operations
    answers, images = OperationAnswers(proof.classifier, planned), dict[str, str]()
    items = [item for item in ledger.items_of(run.id, Item) if item.kind == OPERATIONS]
    pairs.planned = len(items)
    for item in items:
        group = groups.get(item.item_group, item.item_group)
        if item.result is None or before & {group, item.source_image}:
            continue
        images[item.item_group] = item.source_image
        answers.add(item.item_group, group, item.result.transformed, item.result.left_out)
    sources = answers.sources(proof.operation) if proof.operation in answers.operations else []
    if sources:
        told = answers.paired((proof.operation, proof.level))
        pairs.losses, pairs.lost, pairs.gained = told.losses, told.lost, told.gained
        pairs.images = {images[source] for source in sources}
        pairs.groups = {answers.groups[source] for source in sources}
    return pairs


def revision_of_operation_proof(run: Run, ledger: RunLedger) -> Hashable:
    """Return the newest event of each other run that a proof joins; None for a run that is no proof."""
    proof = operation_proof_of(run)
    if proof is None:
        return None
    others = (each.id for each in operation_runs(proof, ledger, until=run) if each.id != run.id)
    return tuple(ledger.last_event(each).id for each in others)


def with_operation_proof(
    summary: StressTestSummary, run: Run, config: StressTestConfig, ledger: RunLedger
) -> StressTestSummary:
    """Return a proof's summary with what all runs show of the operation as verdict; others as they are."""
    proof = config.operation_proof
    if proof is None:
        return summary
    joined = joined_operation(proof, ledger, operation_runs(proof, ledger, until=run))
    verdict = ClassifierVerdict(
        classifier=proof.classifier, state=joined.state, finding=proof.number, sentence=joined.sentence
    )
    lines = [headline([verdict]), joined.sentence, *_about(joined, run)]
    own = summary.transforms
    update = {"figures": [_as_joined(each, joined) for each in own.figures], "classes": None} if own else {}
    told = own and own.model_copy(update=update)
    return summary.model_copy(update={"verdicts": [verdict], "verdict": "\n".join(lines), "transforms": told})


def _as_joined(figure: OperationFigure, joined: JoinedOperation) -> OperationFigure:
    """This run's figure with the state that all runs give it: its own test would be one more."""
    breaks = joined.state == "breaks"
    return figure.model_copy(
        update={
            "number": joined.proof.number,
            "state": joined.state,
            "from_level": joined.proof.level if breaks else None,
            "sentence": joined.sentence,
            "levels": [each.model_copy(update={"shown": breaks}) for each in figure.levels],
        }
    )


def _about(joined: JoinedOperation, run: Run) -> list[str]:
    proof, evidence = joined.proof, joined.evidence
    lines = [
        f"This run goes on with finding {proof.number} of run {proof.parent[:8]}, on fresh images alone.",
        f"Evidence of {joined.number} images in {len(joined.runs)} runs: {evidence.e_value:.3g}; "
        f"{evidence.needed:.3g} proves it, as one of {proof.family} operations and levels.",
    ]
    if run.state not in FINAL_RUN_STATES:
        return [*lines, "The run has not ended; its images count when it has."]
    if run.request_counts.total < proof.images:
        left = run.request_counts.total
        lines.append(f"Dataset {run.dataset!r} had {left} fresh images, not {proof.images}; add images.")
    return lines
