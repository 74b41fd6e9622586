"""Insights of a run of one stage as findings: how many answers flip, to which class, and on which images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from counterpose_core.contract.findings import Finding, FindingState
from counterpose_core.contract.stress_tests import Insight
from counterpose_core.statistics.coded import Ints
from counterpose_core.stress_test.decisions import why_hint
from counterpose_core.stress_test.insights import Group, Pattern, group_by_words
from counterpose_core.stress_test.naming import words_behind
from counterpose_core.stress_test.screening import Change
from counterpose_core.types import EditType
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.observations.observed_items import SourceControls, group_of
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.finding_draft import Draft
from counterpose_gateway.methods.stress_test.summary.hypotheses import CHANGES
from counterpose_gateway.methods.stress_test.summary.suspicion import is_suspect, untested
from counterpose_gateway.summaries.columns import NONE

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
    # One by one: a draft has all its pairs, a finding lists some.
    drafts = (
        screens[insight.classifier].draft(insight, estimator)
        for insight in insights
        if insight.classifier in screens
    )
    found = [(draft.finding(0), edits) for draft, edits in filter(None, drafts)]
    found.sort(key=lambda one: (_SUREST.index(one[0].state), -one[0].flipped, -one[0].screened.loss))
    told = {evidence.classifier: np.zeros(len(evidence.edits.columns), dtype=np.bool_) for evidence in seen}
    listed = []
    for finding, at in found:
        known = told[finding.classifier]
        if total(known[at]) < _COVERED * len(at):
            listed.append(finding)
            known[at] = True
    return listed


Words = tuple[str, str, str, str]
"""Class, edit type, removed and added words."""


def _words(said: Pattern | Insight) -> Words:
    return said.object_class, said.edit_type, said.removed, said.added


def change_key(said: Finding | Insight) -> tuple[str, ...]:
    """Return classifier, class, kind and words: the same for two that tell of the same change."""
    return said.classifier, said.object_class, said.edit_type, said.removed, said.added


@dataclass(frozen=True)
class _Screen:
    """The edits that one classifier saw, grouped by words."""

    evidence: Evidence

    @cached_property
    def _controls(self) -> SourceControls:
        evidence = self.evidence
        return SourceControls.of(evidence.edits.columns, evidence.reconstructions.at, evidence.placebos.at)

    @cached_property
    def _groups(self) -> Mapping[Words, Group]:
        groups = group_by_words(self.evidence.effects, least_sources=1)
        return {_words(group.spoken): group for group in groups}

    def draft(self, insight: Insight, estimator: LanceEstimator) -> tuple[Draft, Ints] | None:
        """The finding of an insight with the places of its edits; None where no edit of it has a control.

        An insight without words gets those that are behind its harm. A test of all edits of a type says
        nothing of some of them, so its finding keeps all images and tells the words beside.
        """
        whole, mostly = self._groups.get(_words(insight)), ("", "")
        words, at = (insight.removed, insight.added), self._places(insight, whole)
        if whole is not None and words == ("", "") and (behind := words_behind(whole, self._groups.values())):
            named = behind.spoken.removed, behind.spoken.added
            if insight.significant:
                mostly = named
            else:
                words, at = named, behind.effects.at
        columns = self.evidence.edits.columns
        if not (self._controls.at[columns.source[at]] != NONE).any():
            return None
        edit_types = columns.edit_type[at]
        edit_type = cast(EditType, columns.name("edit_type", int(edit_types[edit_types != NONE][0])))
        change = Change(insight.object_class, edit_type, *words)
        group = group_of(insight.classifier, change, words, columns, at, self._controls)
        if insight.significant:
            return untested(group, "breaks", mostly), at
        state: FindingState = "suspected" if is_suspect(group, estimator) else "cannot-tell"
        why = why_hint(insight, insight.n_sources, CHANGES.level)
        return replace(untested(group, state), why=why), at

    def _places(self, insight: Insight, whole: Group | None) -> Ints:
        """The places of an insight's edits in the columns."""
        if not insight.cluster_items and whole is not None:
            return whole.effects.at
        ids = self.evidence.edits.columns.ids
        found = [ids.find(item) for item in insight.cluster_items or [insight.example_item]]
        at = np.array([place for place in found if place is not None], dtype=np.intp)
        return at[np.isin(at, self.evidence.edits.at)]
