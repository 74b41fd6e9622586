"""An operation over several runs: the pairs of its own run and of its proofs, each photograph once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.proofs import OperationProof, ProofRun
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.transforms import TransformSummary
from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.stress_test.proof import Evidence, join
from counterpose_core.stress_test.screening import LEAST_LOSS
from counterpose_core.transforms.table import operation
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.stress_test.summary.joined_runs import listed_runs
from counterpose_gateway.methods.stress_test.transforms.operation_answers import OperationAnswers
from counterpose_gateway.methods.stress_test.transforms.process import OPERATIONS
from counterpose_gateway.methods.stress_test.transforms.sentences import operation_sentence
from counterpose_gateway.methods.stress_test.transforms.severity.image_answers import share

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


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

    @cached_property
    def evidence(self) -> Evidence:
        """What all pairs show together; valid at any stop, and corrected over the run's operations."""
        return join([each.losses for each in self.runs], self.proof.family, least=self.proof.least_loss)

    @property
    def state(self) -> FindingState:
        """What they show of the operation.

        A loss of one class was shown by its run: it stays so, as the test keeps its own level, unless the
        mean loss of all pairs counts for nothing.
        """
        is_worth_telling = (self.evidence.loss.estimate or 0.0) >= LEAST_LOSS
        if self.evidence.proven or (self.proof.object_class and is_worth_telling):
            return "breaks"
        return "holds" if self.evidence.absent else "cannot-tell"

    @property
    def sentence(self) -> str:
        """The finding in one sentence."""
        proof, loss = self.proof, self.evidence.loss
        words = operation(proof.operation).in_words(proof.level, scaled=self.scaled)
        if loss.estimate is None:
            return f"No image is answered yet where it {words}."
        if self.state == "holds":
            # The same bets, for one side alone, rule the margin out.
            loss = loss.model_copy(update={"high": min(loss.high or 0.0, MARGIN)})
        lost, gained = sum(each.lost for each in self.runs), sum(each.gained for each in self.runs)
        counts = lost, self.number, gained
        return operation_sentence(self.state, proof.classifier, words, loss, counts, proof.object_class)

    @property
    def scaled(self) -> bool:
        """Whether the plan of any run says so."""
        plans = (StressTestConfig.model_validate(each.run.resolved_config).transforms for each in self.runs)
        return any(plan is not None and plan.scaled for plan in plans)

    @property
    def number(self) -> int:
        """The images with a pair."""
        return sum(len(each.images) for each in self.runs)

    @property
    def listed_runs(self) -> list[ProofRun]:
        """Each run with what it adds."""
        pairs = [(each.run, each.planned, len(each.images), dict[str, int]()) for each in self.runs]
        return listed_runs(pairs, self.evidence)


def joined_operation(proof: OperationProof, ledger: Ledger, runs: Sequence[Run]) -> JoinedOperation:
    """Join the pairs of the ended ``runs``: a photograph, or a group, counts in the first that has it."""
    before: set[str] = set()
    joined: list[OperationPairs] = []
    for run in runs:
        pairs = _pairs_of(run, proof, ledger, before)
        before |= pairs.groups | pairs.images
        joined.append(pairs)
    return JoinedOperation(proof, joined)


def _pairs_of(run: Run, proof: OperationProof, ledger: Ledger, before: set[str]) -> OperationPairs:
    pairs = OperationPairs(run, run.request_counts.total)
    if run.state not in FINAL_RUN_STATES:
        return pairs
    config = StressTestConfig.model_validate(run.resolved_config)
    planned = {} if config.transforms is None else config.transforms.operations
    adaptive = config.transforms is not None and config.transforms.is_adaptive
    if adaptive:
        # Only the half that did not choose the level is evidence, at that level.
        planned = {proof.operation: [proof.level]}
    answers, images = OperationAnswers(proof.classifier, planned, adaptive=adaptive), dict[str, str]()
    pairs.planned = 0
    for item in ledger.items.of(run.id, Item):
        if item.kind != OPERATIONS or proof.object_class not in ("", item.label):
            continue
        if adaptive and share(config, item.item_group) != "tested":
            continue
        pairs.planned += item.stage == 1
        group = config.groups.get(item.item_group, item.item_group)
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


def as_joined(told: TransformSummary, joined: JoinedOperation) -> TransformSummary:
    """This run's figure with the state that all runs give it: its own test would be one more."""
    breaks = joined.state == "breaks"
    figures = [
        each.model_copy(
            update={
                "number": joined.proof.number,
                "state": joined.state,
                "from_level": joined.proof.level if breaks else None,
                "sentence": joined.sentence,
                "levels": [level.model_copy(update={"shown": breaks}) for level in each.levels],
            }
        )
        for each in told.figures
    ]
    return told.model_copy(update={"figures": figures, "classes": None})
