"""The screen of a stress test: groups of edits by words, each with its loss beyond the own controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from faultline_core.contract.confirmation import Wording
from faultline_core.stress_test.effects import Effect
from faultline_core.stress_test.insights import Pattern, group_by_words
from faultline_core.stress_test.screening import Candidate, Change, mean_losses
from faultline_gateway.methods.stress_test.observations import Observation, controls

_BRIDGE = "…"
"""Stands for words between two places of one change, which no caption contains."""

Suspicion = tuple[str, Change]
"""A classifier and a change that may hurt it."""


@dataclass(frozen=True)
class ScreenedGroup:
    """The edits of one change that a classifier saw, each with its source's control if there is one.

    ``removed`` and ``added`` are the change in the words that most of its captions use.
    """

    classifier: str
    change: Change
    removed: str
    added: str
    edits: Sequence[Observation]
    controls: Mapping[str, Observation]

    @property
    def pairs(self) -> list[tuple[Observation, Observation]]:
        """Each edit with its control; edits without one are left out."""
        found = ((edit, self.controls.get(edit.source)) for edit in self.edits)
        return [(edit, control) for edit, control in found if control is not None and self._seen(control)]

    def _seen(self, control: Observation) -> bool:
        return self.classifier in control.after

    def loss(self, edit: Observation, control: Observation) -> float:
        """p(true class) of the control less that of the edit."""
        return control.after[self.classifier].p_true - edit.after[self.classifier].p_true

    @property
    def candidate(self) -> Candidate:
        """The group as a candidate for confirmation."""
        losses = [self.loss(edit, control) for edit, control in self.pairs]
        loss, n = mean_losses([edit.unit for edit, _ in self.pairs], losses)
        edits = frozenset(edit.id for edit in self.edits)
        return Candidate(self.classifier, self.change, loss, n, edits=edits)

    @property
    def wordings(self) -> list[Wording]:
        """The words by which its edits show the change, the most frequent first."""
        counted = Counter((edit.removed, edit.added) for edit in self.edits)
        usable = [words for words in counted if not any(_BRIDGE in side for side in words)]
        usable.sort(key=lambda words: (-counted[words], words))
        return [Wording(removed=removed, added=added) for removed, added in usable]


def screened_groups(
    seen: Sequence[Observation], classifiers: Iterable[str]
) -> dict[Suspicion, ScreenedGroup]:
    """Group the screen's edits by classifier and words; groups that name no words are left out."""
    screened = [each for each in seen if each.stage == 1]
    edits = {each.id: each for each in screened if each.kind == "edit" and each.done}
    own_controls = controls(screened)
    groups: dict[Suspicion, ScreenedGroup] = {}
    for classifier in classifiers:
        effects = [effect for edit in edits.values() for effect in _effect(edit, classifier)]
        for group in group_by_words(effects, least_sources=1):
            if group.pattern.removed or group.pattern.added:
                change, said = _change(group.pattern), group.spoken
                found = [edits[item] for item in group.effects.items]
                groups[classifier, change] = ScreenedGroup(
                    classifier, change, said.removed, said.added, found, own_controls
                )
    return groups


def _effect(edit: Observation, classifier: str) -> list[Effect]:
    after, before = edit.after.get(classifier), edit.before.get(classifier)
    if edit.edit_type is None or after is None or before is None:
        return []
    change = after.p_true - before.p_true
    words = edit.removed, edit.added
    return [Effect(edit.id, edit.unit, edit.label, edit.edit_type, *words, delta_p=change)]


def _change(pattern: Pattern) -> Change:
    return Change(pattern.object_class, pattern.edit_type, pattern.removed, pattern.added)


def share_of_pairs(seen: Sequence[Observation], edit_type: str) -> float:
    """Return the share of fresh images or draws whose edit and placebo can be expected to be kept, in (0, 1).

    It is the share, in all stages so far, of the edits of this type at the gate that pass it and whose own
    placebo was kept, with one imagined pair that was kept and one that was not.
    """
    placebos = {each.place for each in seen if each.kind == "placebo" and each.done}
    kept, reached = 1, 2
    for each in seen:
        gated = each.done or (each.reason or "").startswith("gate-")
        if each.kind in ("edit", "confirmation") and each.edit_type == edit_type and gated:
            kept, reached = kept + (each.done and each.place in placebos), reached + 1
    return kept / reached
