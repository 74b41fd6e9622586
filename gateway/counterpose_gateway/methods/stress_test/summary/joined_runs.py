"""A finding over several runs: the pairs of its own run and of each child run, joined to one result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from counterpose_core.contract.confirmation import ConfirmationScope
from counterpose_core.contract.findings import Confirmed, Finding, FindingState
from counterpose_core.contract.proofs import AnyProof, OperationProof, Proof, ProofPair, ProofRun
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import NotFound
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.stress_test.decisions import settle_zero, zero_ruled_out
from counterpose_core.stress_test.proof import Evidence, join
from counterpose_core.stress_test.screening import LEAST_LOSS, Change, wording_key
from counterpose_core.types import FINAL_RUN_STATES, Estimate
from counterpose_gateway.methods.stress_test.columns import read_columns
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import (
    FreshPair,
    chosen_changes,
    fresh_placebos,
    losses,
    pair_columns,
)
from counterpose_gateway.methods.stress_test.observations.observed_items import ObservedItems
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.finding_draft import Draft, Pair, flips
from counterpose_gateway.methods.stress_test.summary.suspicion import figure_of
from counterpose_gateway.methods.stress_test.summary.worded import WordedPairs

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


@dataclass(frozen=True)
class RunPairs:
    """The pairs that one run has of a finding, in planned order; none before the run has ended."""

    run: Run
    planned: int
    dropped: dict[str, int]
    pairs: Sequence[FreshPair]

    @property
    def losses(self) -> list[float]:
        """The loss of each unit or of its draws: pairs of one group count once."""
        return losses(self.pairs)


@dataclass(frozen=True)
class JoinedFinding:
    """A finding with the pairs of every run that has some; the first is its own run, if that still exists."""

    proof: Proof
    runs: Sequence[RunPairs]
    whole: JoinedFinding | None = None
    """The finding of all wordings, where they part and ``runs`` have the pairs of those that hurt. It
    decides: wordings that were chosen by their losses prove nothing by the same losses."""

    @cached_property
    def worded(self) -> WordedPairs:
        """The pairs by wording."""
        if self.whole is not None:
            return self.whole.worded
        finding = self.proof.finding
        figure = figure_of((finding.classifier, change_of(self.proof)))
        # The runs have seeds of their own; what they show together has one.
        estimator = LanceEstimator(0)
        return WordedPairs(finding.classifier, self.pairs, self.scope == "images", figure, estimator)

    @cached_property
    def evidence(self) -> Evidence:
        """What all pairs show together, of all wordings."""
        if self.whole is not None:
            return self.whole.evidence
        name = self.proof.finding.classifier
        columns = pair_columns(self.pairs, name, redrawn=self.scope == "images")
        return join([each.losses for each in self.runs], self.proof.family, broad=columns.is_broad)

    @property
    def scope(self) -> ConfirmationScope:
        """Whether the pairs speak of the class, or of the images that some are drawn of."""
        return "images" if any(pair.edit.place[1] is not None for pair in self.pairs) else "class"

    @property
    def pairs(self) -> list[FreshPair]:
        """All pairs, run after run."""
        return [pair for each in self.runs for pair in each.pairs]

    @property
    def is_decided(self) -> bool:
        """Whether more images could not make it surer."""
        return self.state in ("breaks", "holds")

    @property
    def state(self) -> FindingState:
        """How sure the finding is; until a child run adds pairs, as its own run told it.

        What that run confirmed stays so, since its test keeps its own level, unless it spoke of a few images
        and the joined pairs speak of the class, or the mean loss of the joined pairs counts for nothing.
        """
        if self.whole is not None:
            return self.whole.state
        told, tested = self.proof.finding.state, self.proof.finding.confirmed
        wider = tested is not None and (tested.scope, self.scope) == ("images", "class")
        if not self._extended or (told == "breaks" and not wider and self._is_worth_telling):
            return told
        if self.evidence.proven:
            return "breaks"
        return "holds" if self.evidence.absent else "cannot-tell"

    @property
    def _is_worth_telling(self) -> bool:
        """Whether the loss of all pairs is that of a finding: no word of an old test stands beside less."""
        return (self.evidence.loss.estimate or 0.0) >= LEAST_LOSS

    @property
    def finding(self) -> Finding:
        """The finding with all its pairs; its p-values are those of the joined evidence."""
        told = self.proof.finding
        if not self._extended:
            return told
        draft = Draft(
            state=self.state,
            classifier=told.classifier,
            object_class=told.object_class,
            edit_type=told.edit_type,
            words=(told.removed, told.added),
            screened=told.screened,
            confirmed=self._confirmed,
            pairs=[Pair(pair.placebo, pair.edit, pair.loss) for pair in self.pairs],
        )
        draft = self.worded.of(draft)
        joined = replace(draft, tested=told.tested or draft.tested).finding(told.number)
        return joined.model_copy(update={"backend": told.backend})

    @property
    def listed_pairs(self) -> list[ProofPair]:
        """All pairs in planned order, each with its run."""
        name = self.proof.finding.classifier
        return [
            ProofPair(
                run_id=each.run.id,
                source=pair.edit.source,
                control=pair.placebo.id,
                edit=pair.edit.id,
                loss=pair.loss,
                answer=pair.edit.after[name].answer,
            )
            for each in self.runs
            for pair in each.pairs
        ]

    @property
    def listed_runs(self) -> list[ProofRun]:
        """Each run with what it adds."""
        pairs = [(each.run, each.planned, len(each.pairs), each.dropped) for each in self.runs]
        return listed_runs(pairs, self.evidence)

    @property
    def _extended(self) -> bool:
        return any(each.pairs for each in self.runs if each.run.id != self.proof.parent)

    @property
    def _loss(self) -> Estimate:
        """The loss of the pairs that the finding speaks of, with an interval that agrees with its state."""
        loss, evidence = join([each.losses for each in self.runs], self.proof.family).loss, self.evidence
        ruled_out = zero_ruled_out(shown=self.state == "breaks", p_adjusted=evidence.p_adjusted)
        settled = settle_zero(loss, ruled_out=ruled_out)
        if self.state != "holds" or settled.high is None:
            return settled
        # The same bets, for one side alone, rule the margin out: it is the end, and no part, of the interval.
        return settled.model_copy(update={"high": min(settled.high, math.nextafter(MARGIN, 0.0))})

    @property
    def _confirmed(self) -> Confirmed:
        name, dropped = self.proof.finding.classifier, Counter[str]()
        for each in self.runs:
            dropped.update(each.dropped)
        return Confirmed(
            scope=self.scope,
            n_sources=len({pair.edit.unit for pair in self.pairs}),
            n_pairs=len(self.pairs),
            loss=self._loss,
            planned=sum(each.planned for each in self.runs),
            dropped=dict(sorted(dropped.items())),
            stopped=False,
            e_value=self.evidence.e_value,
            p=self.evidence.p,
            p_adjusted=self.evidence.p_adjusted,
            family_size=self.proof.family,
            flipped=sum(flips(pair.placebo, pair.edit, name) for pair in self.pairs),
        )


def listed_runs(runs: Sequence[tuple[Run, int, int, dict[str, int]]], evidence: Evidence) -> list[ProofRun]:
    """Return each run with what it adds: how many pairs were planned, kept, and left out by reason."""
    return [
        ProofRun(
            run_id=run.id,
            state=run.state,
            dataset=run.dataset,
            planned=planned,
            pairs=pairs,
            dropped=dropped,
            e_value=e_value,
        )
        for (run, planned, pairs, dropped), e_value in zip(runs, evidence.e_values, strict=True)
    ]


def change_of(proof: Proof) -> Change:
    """The change that a proof makes."""
    words = proof.change
    return Change(proof.finding.object_class, words.edit_type, words.removed, words.added)


def proof_of(run: Run) -> AnyProof | None:
    """What a run is to prove, or None where it searches itself."""
    if run.kind != "stress-test":
        return None
    config = StressTestConfig.model_validate(run.resolved_config)
    return config.proof or config.operation_proof


def revision_of_proof(run: Run, ledger: Ledger) -> Hashable:
    """Return the newest event of each other run that a child run joins; None for a run that is no child."""
    proof = proof_of(run)
    if proof is None:
        return None
    others = (each.id for each in proving_runs(proof, ledger, until=run) if each.id != run.id)
    return tuple(ledger.events.last(each).id for each in others)


def proving_runs(proof: AnyProof, ledger: Ledger, *, until: Run | None = None) -> list[Run]:
    """Return the runs with pairs of the finding, its own first, then its children, the oldest first.

    Args:
        proof: the finding, of its own run.
        ledger: knows the runs; the finding's own may have been deleted.
        until: the last child to count, so that an ended child tells the same whatever follows it.
    """
    found: list[Run] = []
    with suppress(NotFound):
        found.append(ledger.runs.get(proof.parent, "stress-test"))
    for child in ledger.runs.children(proof.parent):
        own = proof_of(child)
        if own is not None and _key(own) == _key(proof):
            found.append(child)
        if until is not None and child.id == until.id:
            break
    return found


def joined_finding(proof: Proof, ledger: Ledger, runs: Sequence[Run]) -> JoinedFinding:
    """Join the pairs that the ended ``runs`` have of the finding.

    An image, or a group of them, counts in the first run that made a pair of it: two runs that began at once
    may share some. What the finding's own run drew of a few images speaks of these alone, so it counts if the
    others drew too.
    """
    known: set[tuple[object, ...]] = set()
    found: list[RunPairs] = []
    for run in runs:
        each = _pairs_of(run, ledger, proof)
        seed = StressTestConfig.model_validate(run.resolved_config).request.seed
        # The noise of a draw depends on the run's seed, the source and the draw alone.
        keys = [(*pair.edit.place, seed) if _is_drawn(pair) else (pair.edit.unit,) for pair in each.pairs]
        fresh = [pair for pair, key in zip(each.pairs, keys, strict=True) if key not in known]
        known |= set(keys)
        found.append(_kept(each, fresh, "image-used-before"))
    children = [pair for each in found if each.run.id != proof.parent for pair in each.pairs]
    if children and not any(map(_is_drawn, children)):
        found = [_kept(each, [pair for pair in each.pairs if not _is_drawn(pair)], "drawn") for each in found]
    joined = JoinedFinding(proof, found)
    if not children or joined.state != "breaks" or not joined.worded.is_narrower:
        return joined
    named = set(joined.worded.named)
    narrower = [
        _kept(each, [pair for pair in each.pairs if pair.edit.wording_key in named], "other-wording")
        for each in found
    ]
    return JoinedFinding(proof, narrower, whole=joined)


def _is_drawn(pair: FreshPair) -> bool:
    return pair.edit.place[1] is not None


def _kept(each: RunPairs, pairs: Sequence[FreshPair], reason: str) -> RunPairs:
    """The run with some of its pairs; the others are dropped for a reason."""
    left_out = {reason: len(each.pairs) - len(pairs)} if len(pairs) < len(each.pairs) else {}
    return RunPairs(each.run, each.planned, {**each.dropped, **left_out}, pairs)


def _key(proof: AnyProof) -> tuple[object, ...]:
    # Not by number: a run whose failed items were tried again may list its findings in another order.
    if isinstance(proof, OperationProof):
        return proof.classifier, proof.operation, proof.level, proof.object_class
    return proof.classifier, change_of(proof)


def _pairs_of(run: Run, ledger: Ledger, proof: Proof) -> RunPairs:
    if run.state not in FINAL_RUN_STATES:
        return RunPairs(run, 0, {}, [])
    columns = read_columns(run, ledger)
    seen = list(ObservedItems(columns, np.flatnonzero(columns.stage > 1)))
    placebos, name = fresh_placebos(seen), proof.finding.classifier
    all_placebos = [each for each in seen if each.kind == "placebo"]
    wordings = {wording_key(each.removed, each.added) for each in proof.wordings}
    planned, dropped, pairs = 0, Counter[str](), list[FreshPair]()
    for each in chosen_changes(seen):
        if each.change == change_of(proof) and name in each.classifiers:
            own = each.of_wordings(wordings) if proof.finding.tested is not None else each
            planned += len(own.edits)
            dropped.update(own.dropped(all_placebos))
            pairs += own.pairs(name, placebos)
    return RunPairs(run, planned, dict(sorted(dropped.items())), pairs)
