"""Pairs of fresh images or fresh draws: which changes a run tests, and what they have shown so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from counterpose_core.contract.confirmation import ConfirmationScope
from counterpose_core.statistics.bootstrap import mean_by_source
from counterpose_core.stress_test.confirmation import PairColumns
from counterpose_core.stress_test.screening import Change, WordingKey
from counterpose_gateway.methods.stress_test.observations.observations import (
    REPEATED_DRAW,
    Draws,
    Observation,
    Place,
)
from counterpose_gateway.reports.reasons import CONTROL

LOOK_STAGE = 2
"""The stage of the first pairs of each change; those that are not hopeless get more in the next."""

Suspicion = tuple[str, Change]
"""A classifier and a change that may hurt it."""


@dataclass(frozen=True)
class FreshPair:
    """A placebo and an edit of one fresh source, or of one draw, as one classifier sees them."""

    placebo: Observation
    edit: Observation
    loss: float


def losses(pairs: Iterable[FreshPair]) -> list[float]:
    """The loss of each unit, or of each of its draws, in planned order: pairs of one group count once."""
    return list(
        mean_by_source((f"{pair.edit.unit}/{pair.edit.place[1]}", pair.loss) for pair in pairs).values()
    )


def pair_columns(pairs: Sequence[FreshPair], classifier: str, *, redrawn: bool) -> PairColumns:
    """The pairs as columns of numbers; ``redrawn``: whether source images give several each."""
    return PairColumns.of(
        [pair.edit.unit for pair in pairs],
        [pair.placebo.after[classifier].score for pair in pairs],
        [pair.edit.after[classifier].score for pair in pairs],
        redrawn=redrawn,
    )


@dataclass(frozen=True)
class ChosenChange:
    """A change and the classifiers that it is tested for, with the items planned for it so far.

    ``slot`` is its number in the run, the best of the screen first.
    """

    slot: int
    change: Change
    classifiers: tuple[str, ...]
    edits: Sequence[Observation]

    @property
    def scope(self) -> ConfirmationScope:
        """Whether its pairs speak of the class, or of the images that they are drawn of."""
        return "images" if any(edit.place[1] is not None for edit in self.edits) else "class"

    def pairs(self, classifier: str, placebos: Mapping[Place, Observation]) -> list[FreshPair]:
        """The pairs that were kept whole, in the order in which they were planned."""
        found: list[FreshPair] = []
        repeated = self._repeated(placebos)
        for edit in self.edits:
            placebo = placebos.get(edit.place)
            if placebo is None or edit.id in repeated:
                continue
            if classifier not in placebo.after or classifier not in edit.after:
                continue
            loss = placebo.after[classifier].score - edit.after[classifier].score
            found.append(FreshPair(placebo, edit, loss))
        return found

    def columns(self, classifier: str, placebos: Mapping[Place, Observation]) -> PairColumns:
        """The pairs as columns of numbers."""
        return pair_columns(self.pairs(classifier, placebos), classifier, redrawn=self.scope == "images")

    def of_stage(self, stage: int) -> ChosenChange:
        """The change with the items of one stage only."""
        return replace(self, edits=[edit for edit in self.edits if edit.stage == stage])

    def of_wordings(self, wordings: Collection[WordingKey]) -> ChosenChange:
        """The change with the items of some of its wordings only."""
        return replace(self, edits=[edit for edit in self.edits if edit.wording_key in wordings])

    def dropped(self, placebos: Iterable[Observation]) -> dict[str, int]:
        """The number of planned pairs that are not whole, by the reason of the edit, else of the placebo."""
        placebos = list(placebos)
        lost = {each.place: why_not(each) for each in placebos if not each.done}
        repeated = self._repeated({each.place: each for each in placebos if each.done})
        reasons = [
            why_not(edit) if not edit.done else f"{CONTROL}{lost[edit.place]}"
            for edit in self.edits
            if not edit.done or edit.place in lost
        ] + [REPEATED_DRAW] * len(repeated)
        return dict(sorted(Counter(reasons).items()))

    def _repeated(self, placebos: Mapping[Place, Observation]) -> set[str]:
        draws, whole = Draws(), [edit for edit in self.edits if edit.done and edit.place in placebos]
        return {edit.id for edit in whole if draws.repeats(edit, placebos[edit.place])}


def why_not(each: Observation) -> str:
    """Why an item was not kept: its filter's reason, or its state."""
    return each.reason or each.state


def chosen_changes(seen: Iterable[Observation]) -> list[ChosenChange]:
    """Return the changes that stages after the first have items of, the best of the screen first."""
    edits: dict[tuple[int, Change, tuple[str, ...]], list[Observation]] = {}
    for each in seen:
        asked = each.instruction
        if each.kind == "confirmation" and asked is not None and asked.change is not None:
            words = asked.change
            change = Change(each.label, words.edit_type, words.removed, words.added)
            edits.setdefault((each.slot, change, tuple(asked.classifiers)), []).append(each)
    chosen = [ChosenChange(*key, found) for key, found in edits.items()]
    return sorted(chosen, key=lambda each: each.slot)


def fresh_placebos(seen: Iterable[Observation]) -> dict[Place, Observation]:
    """Source and draw → the placebo that was kept, of the stages after the screen."""
    return {each.place: each for each in seen if each.stage > 1 and each.kind == "placebo" and each.done}


def suspicions(changes: Iterable[ChosenChange]) -> list[tuple[Suspicion, ChosenChange]]:
    """Every hypothesis: a classifier under a change."""
    return [((classifier, each.change), each) for each in changes for classifier in each.classifiers]
