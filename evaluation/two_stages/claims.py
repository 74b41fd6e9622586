"""What a run says of its classifiers, with the edits that it says it of, and the truth about these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterpose_core.contract.confirmation import ConfirmationScope
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.stress_tests import Insight
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.hints import as_findings
from evaluation.two_way.conditions import Conditions, JointTruth, named
from evaluation.validity.changes import Change, by_source, change_of
from evaluation.validity.detection import Chance, names, verdict_of
from evaluation.validity.matching import Told, members
from evaluation.validity.measures import UNKNOWN, Floats
from evaluation.validity.truth import Truth, true_drop

from .replay import Replayed
from .report import ClaimReport, Stages

Joint = Callable[[Told, Conditions], JointTruth]
"""The truth of a finding about two conditions together."""

UNSAID = {"weather": "clear", "companion": "none"}
"""The value of an attribute that a caption does not mention."""


@dataclass(frozen=True)
class Claim:
    """A finding or a significant insight, and the edits that show it; ``estimate`` is its loss.

    ``conditions``: of a finding about two conditions together, those that its phrases name.
    """

    said: Told
    state: str
    estimate: Estimate
    edits: Sequence[Change]
    pairs: int
    scope: ConfirmationScope = "class"
    stopped: bool = False
    conditions: Conditions | None = None
    is_tested: bool = False

    @property
    def sources(self) -> int:
        """The number of source images that show it."""
        return len({edit.source for edit in self.edits})

    def names(self, chance: Chance) -> bool:
        """Whether its words name a bug of its classifier."""
        return names(self.said, chance)

    def shows(self, chance: Chance) -> bool:
        """Whether each of its images shows a bug of its classifier, whatever its words."""
        mine = self.said.classifier == chance.classifier
        return mine and bool(self.edits) and all(shows(edit, chance) for edit in self.edits)


def shows(edit: Change, chance: Chance) -> bool:
    """Whether an edit takes away what a bug leans on, or brings in what it is mistaken by."""
    bug = chance.bug
    side = edit.removed if bug.mode == "leans-on" else edit.added
    return (edit.object_class, edit.attribute, side) == (bug.object_class, bug.attribute, bug.value)


def changes_by_item(replayed: Replayed, index: Mapping[str, int]) -> dict[str, Change]:
    """The one attribute that each edit of a run asked to change; ``index`` gives the scene of an image."""
    found = ((item.id, change_of(item, index[item.source_image])) for item in replayed.items)
    return {item: change for item, change in found if change is not None}


def claims_of(replayed: Replayed, changes: Mapping[str, Change]) -> list[Claim]:
    """Every finding of a run of two stages; significant insights and suspicions of a run of one."""
    summary = replayed.summary
    if stages_of(replayed) == "two":
        return [_of_finding(each, changes) for each in summary.findings]
    shown = [_of_insight(each, changes) for each in summary.insights if each.significant]
    return [*shown, *(_of_finding(each, changes) for each in _hints(replayed) if each.state == "suspected")]


def _hints(replayed: Replayed) -> list[Finding]:
    """The findings of a run of one stage, as its verdicts and its report read them."""
    seen = [Evidence.of(replayed.items, spec) for spec in replayed.create.classifiers]
    return as_findings(replayed.summary.insights, seen, LanceEstimator(replayed.create.seed))


def stages_of(replayed: Replayed) -> Stages:
    """Whether the run was asked to confirm what it screened."""
    return "two" if replayed.create.confirm else "one"


def _of_insight(insight: Insight, changes: Mapping[str, Change]) -> Claim:
    edits = members(insight, changes.values())
    loss = insight.beyond_controls or UNKNOWN
    return Claim(insight, "breaks", loss, edits, insight.n_images, is_tested=True)


def _of_finding(finding: Finding, changes: Mapping[str, Change]) -> Claim:
    edits = [changes[pair.edit] for pair in finding.pairs if pair.edit in changes]
    confirmed = finding.confirmed
    screened = Estimate(estimate=None, low=None, high=None, n=finding.screened.n_sources)
    return Claim(
        finding,
        finding.state,
        screened if confirmed is None else confirmed.loss,
        edits,
        len(finding.pairs),
        scope="class" if confirmed is None else confirmed.scope,
        stopped=confirmed is not None and confirmed.stopped,
        conditions=named(finding.conjunction) if finding.conjunction else None,
        is_tested=confirmed is not None,
    )


def true_on_images(claim: Claim, truth: Truth, generator: np.random.Generator) -> Estimate:
    """The mean true drop on the claim's own sources, each with weight 1."""
    drops = by_source((edit.source, edit.true(truth)) for edit in claim.edits)
    return true_drop(drops, generator) if drops.size else UNKNOWN


def true_on_class(claim: Claim, truth: Truth, generator: np.random.Generator) -> Estimate:
    """The mean true drop on all images of the class to which the claim's changes apply."""
    drops = _class_drops(claim.edits, claim.said.object_class, truth)
    return true_drop(drops, generator) if drops.size else UNKNOWN


def true_by_words(claim: Claim, truth: Truth, generator: np.random.Generator) -> Estimate:
    """The mean true drop on the class of what the claim's sentence says, whatever its edits did.

    “X is gone” is a removal without replacement, “Y is there” an addition without removal: the other value is
    the one that captions do not mention. Sentences of replacements are true or false as their edits are.
    """
    drops = _class_drops(map(_as_said(claim), claim.edits), claim.said.object_class, truth)
    return true_drop(drops, generator) if drops.size else UNKNOWN


def _as_said(claim: Claim) -> Callable[[Change], Change]:
    said = claim.said
    is_open = bool(said.removed) != bool(said.added) and getattr(said, "wording_scope", "plain") == "plain"

    def change(edit: Change) -> Change:
        unsaid = UNSAID.get(edit.attribute)
        if not is_open or unsaid is None:
            return edit
        return replace(edit, added=unsaid) if said.removed else replace(edit, removed=unsaid)

    return change


def _class_drops(edits: Iterable[Change], object_class: str, truth: Truth) -> Floats:
    applied = [(edit.attribute, edit.removed, edit.added) for edit in edits]
    drops = [
        float(np.mean([truth.drop(row, attribute, added) for attribute, added in fitting]))
        for row, scene in enumerate(truth.scenes)
        if scene.object_class == object_class
        and (
            fitting := [
                (attribute, added)
                for attribute, removed, added in applied
                if getattr(scene, attribute) == removed
            ]
        )
    ]
    return np.array(drops)


def claim_reports(
    replayed: Replayed,
    roster: str,
    claims: Sequence[Claim],
    truths: Mapping[str, Truth],
    joint: Joint,
    planted: Sequence[Chance],
    controls: Sequence[str],
    generator: np.random.Generator,
) -> Iterator[ClaimReport]:
    """Compare the claims that break, that are suspected and that were tested with the truth.

    A finding about two conditions together is judged by ``joint``: no one attribute of its edits says it.
    """
    for claim in claims:
        if not (claim.is_tested or claim.state in ("breaks", "suspected")):
            continue
        said, truth = claim.said, truths[claim.said.classifier]
        on_class = true_on_class(claim, truth, generator)
        # A child of it: the figures of before draw what they drew.
        by_words = true_by_words(claim, truth, *generator.spawn(1))
        bugs = [one.name for one in planted if claim.names(one)]
        verdict, verdict_by_words = verdict_of(on_class, bugs), verdict_of(by_words, [])
        if claim.conditions is not None:
            together = joint(said, claim.conditions)
            by_words, verdict, verdict_by_words = together.together, together.verdict, together.verdict
        yield ClaimReport(
            roster=roster,
            size=replayed.folder.size,
            part=replayed.folder.part,
            stages=stages_of(replayed),
            state=claim.state,
            scope=claim.scope,
            classifier=said.classifier,
            control=said.classifier in controls,
            object_class=said.object_class,
            edit_type=said.edit_type,
            removed=said.removed,
            added=said.added,
            pairs=claim.pairs,
            sources=claim.sources,
            estimate=claim.estimate,
            stopped=claim.stopped,
            true_on_images=true_on_images(claim, truth, generator),
            true_on_class=on_class,
            bugs=bugs,
            conjunction=claim.conditions is not None,
            verdict=verdict,
            true_by_words=by_words,
            verdict_by_words=verdict_by_words,
        )
