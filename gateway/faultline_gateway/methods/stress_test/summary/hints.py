"""Insights of a run of one stage as findings: how many answers flip, to which class, and on which images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from faultline_core.contract.findings import Finding, FindingState
from faultline_core.contract.stress_tests import Insight
from faultline_core.stress_test.insights import Group, Pattern, group_by_words
from faultline_core.stress_test.naming import words_behind
from faultline_core.stress_test.screening import Change
from faultline_gateway.methods.stress_test.observations import Observation, controls, observation
from faultline_gateway.methods.stress_test.screen import ScreenedGroup
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator
from faultline_gateway.methods.stress_test.summary.evidence import Evidence
from faultline_gateway.methods.stress_test.summary.finding_draft import Draft
from faultline_gateway.methods.stress_test.summary.suspicion import is_suspect, untested

_SUREST: tuple[FindingState, ...] = ("breaks", "suspected", "cannot-tell")
_COVERED = 0.8


def as_findings(
    insights: Sequence[Insight], seen: Sequence[Evidence], estimator: LanceEstimator
) -> list[Finding]:
    """Turn insights into findings: ``breaks`` if tested, ``suspected`` if clear of the controls.

    A hint that is neither is ``cannot-tell``. The surest come first, then those that flip most answers;
    their number is 0, as the summary does not list them. A finding whose images surer ones have is left
    out: "yellow becomes blue" is a part of "yellow is gone". So is one without any image that has a control.
    """
    screens = {evidence.classifier: _Screen(evidence) for evidence in seen}
    drafts = [
        screens[insight.classifier].draft(insight, estimator)
        for insight in insights
        if insight.classifier in screens
    ]
    found = [(draft.finding(0), edits) for draft, edits in filter(None, drafts)]
    found.sort(key=lambda one: (_SUREST.index(one[0].state), -one[0].flipped, -one[0].screened.loss))
    told: dict[str, set[str]] = {name: set() for name in screens}
    listed = []
    for finding, items in found:
        if len(items & told[finding.classifier]) < _COVERED * len(items):
            listed.append(finding)
            told[finding.classifier] |= items
    return listed


Words = tuple[str, str, str, str]
"""Class, edit type, removed and added words."""


def _words(said: Pattern | Insight) -> Words:
    return said.object_class, said.edit_type, said.removed, said.added


@dataclass(frozen=True)
class _Screen:
    """The edits that one classifier saw, grouped by words."""

    evidence: Evidence

    @cached_property
    def _edits(self) -> Mapping[str, Observation]:
        return {shot.item.id: observation(shot.item, shot.unit) for shot in self.evidence.edits}

    @cached_property
    def _controls(self) -> Mapping[str, Observation]:
        shots = (*self.evidence.reconstructions, *self.evidence.placebos)
        return controls(observation(shot.item, shot.unit) for shot in shots)

    @cached_property
    def _groups(self) -> Mapping[Words, Group]:
        groups = group_by_words(self.evidence.effects, least_sources=1)
        return {_words(group.spoken): group for group in groups}

    def draft(self, insight: Insight, estimator: LanceEstimator) -> tuple[Draft, set[str]] | None:
        """The finding of an insight with the ids of its edits; None where no edit of it has a control.

        An insight without words gets those that are behind its harm. A test of all edits of a type says
        nothing of some of them, so its finding keeps all images and tells the words beside.
        """
        whole, mostly = self._groups.get(_words(insight)), ("", "")
        words, items = (insight.removed, insight.added), self._items(insight, whole)
        if whole is not None and words == ("", "") and (behind := words_behind(whole, self._groups.values())):
            named = behind.spoken.removed, behind.spoken.added
            if insight.significant:
                mostly = named
            else:
                words, items = named, [effect.item for effect in behind.effects]
        if not any(self._edits[item].source in self._controls for item in items):
            return None
        group = self._group(insight, words, items)
        if insight.significant:
            return untested(group, "breaks", mostly), set(items)
        return untested(group, "suspected" if is_suspect(group, estimator) else "cannot-tell"), set(items)

    def _items(self, insight: Insight, whole: Group | None) -> list[str]:
        if insight.cluster_items:
            return [item for item in insight.cluster_items if item in self._edits]
        if whole is not None:
            return [effect.item for effect in whole.effects]
        return [insight.example_item] if insight.example_item in self._edits else []

    def _group(self, insight: Insight, words: tuple[str, str], items: Sequence[str]) -> ScreenedGroup:
        edits = [self._edits[item] for item in items]
        edit_type = next(each.edit_type for each in edits if each.edit_type is not None)
        change = Change(insight.object_class, edit_type, *words)
        return ScreenedGroup(insight.classifier, change, *words, edits, self._controls)
