"""A finding in the making: its pairs in order, what its images are taken for, and its sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.contract.confirmation import SuspectedChange, WordingScope
from counterpose_core.contract.findings import (
    ConditionCount,
    Confirmed,
    Finding,
    FindingPair,
    FindingState,
    Screened,
    WordingCount,
)
from counterpose_core.stress_test.decisions import why_undecided
from counterpose_core.stress_test.screening import WordingKey
from counterpose_gateway.methods.stress_test.observations.observations import Observation
from counterpose_gateway.methods.stress_test.summary.finding_sentences import finding_sentence, when_changed

MOST_PAIRS = 1000
"""Pairs that a finding lists, those nearest to the median first; its counts are of all."""


@dataclass(frozen=True)
class Pair:
    """A control and an edit of one source, as one classifier sees them."""

    control: Observation | None
    edit: Observation
    loss: float


@dataclass(frozen=True)
class Draft:
    """A finding before it has its number; ``words`` are those that are removed and added.

    ``mostly`` are the words behind the harm where all edits of a type were tested together.
    """

    state: FindingState
    classifier: str
    object_class: str
    edit_type: str
    words: tuple[str, str]
    screened: Screened
    confirmed: Confirmed | None
    pairs: Sequence[Pair]
    mostly: tuple[str, str] = ("", "")
    wordings: Sequence[WordingCount] = ()
    """Every wording of a test; without one those of the pairs."""
    wording_scope: WordingScope = "plain"
    tested: SuspectedChange | None = None
    conjunction: Sequence[ConditionCount] = ()
    """Two conditions that were tested together, in place of words."""
    why: str = ""
    """The rule that left a change open which no test on other images decided."""

    @property
    def loss(self) -> float:
        """The loss by which findings of one state are sorted."""
        if self.confirmed is None or self.confirmed.loss.estimate is None:
            return self.screened.loss
        return self.confirmed.loss.estimate

    def finding(self, number: int) -> Finding:
        """Return the finding; its images by their distance from the median loss, wordings in turns."""
        middle = float(np.median([pair.loss for pair in self.pairs])) if self.pairs else 0.0
        pairs = _wordings_in_turns(
            sorted(self.pairs, key=lambda pair: (abs(pair.loss - middle), pair.edit.id))
        )
        wrong = Counter(
            said
            for pair in pairs
            if not pair.edit.after[self.classifier].right and (said := self._answer(pair.edit))
        )
        taken_for = min(wrong, key=lambda name: (-wrong[name], name), default=None)
        flipped = sum(self._flips(pair) for pair in pairs)
        removed, added = self.words
        return Finding(
            number=number,
            state=self.state,
            classifier=self.classifier,
            object_class=self.object_class,
            edit_type=self.edit_type,
            removed=removed,
            added=added,
            wordings=list(self.wordings)
            or ([] if self.conjunction else _wordings(pair.edit for pair in pairs)),
            wording_scope=self.wording_scope,
            tested=self.tested,
            conjunction=list(self.conjunction),
            taken_for=taken_for,
            flipped=flipped,
            of=len(pairs),
            screened=self.screened,
            confirmed=self.confirmed,
            pairs=[self._listed(pair) for pair in pairs[:MOST_PAIRS]],
            why=self._why,
            sentence=finding_sentence(
                self.state,
                classifier=self.classifier,
                object_class=self.object_class,
                removed=removed,
                added=added,
                taken_for=taken_for if flipped else None,
                flipped=flipped,
                of=len(pairs),
                edit_type=self.edit_type,
                mostly=self.mostly,
                drawn=self._drawn,
                scope=self.wording_scope,
                conjunction=[each.words for each in self.conjunction],
                alone=max((each.wrong for each in self.conjunction), default=0),
            )
            + self._untested,
        )

    @property
    def _drawn(self) -> int | None:
        """The images that a test speaks of alone, or None where it speaks of their class."""
        tested = self.confirmed
        # Where no pair of the test was kept, the finding shows what the screen saw.
        if tested is None or tested.scope == "class" or not tested.n_sources:
            return None
        return tested.n_sources

    @property
    def _why(self) -> str:
        """The rule that decided nothing; empty for any other state."""
        if self.state != "cannot-tell":
            return ""
        return self.why or ("" if self.confirmed is None else why_undecided(self.confirmed))

    @property
    def _untested(self) -> str:
        """The wordings that a proven finding must not be read to speak of, as too few pairs show them."""
        if self.state != "breaks":
            return ""
        few = [
            f"{when_changed(each.removed, each.added).removeprefix('once ')} ({each.n})"
            for each in self.wordings
            if each.p is None and (len(self.wordings) > 1 or not each.named)
        ]
        return f" Untested alone: {'; '.join(few)}." if few else ""

    def _answer(self, image: Observation) -> str:
        return image.after[self.classifier].answer

    def _flips(self, pair: Pair) -> bool:
        return flips(pair.control, pair.edit, self.classifier)

    def _listed(self, pair: Pair) -> FindingPair:
        return FindingPair(
            source=pair.edit.source,
            control=None if pair.control is None else pair.control.id,
            edit=pair.edit.id,
            loss=pair.loss,
            answer=self._answer(pair.edit),
        )


def flips(control: Observation | None, edit: Observation, classifier: str) -> bool:
    """Whether the control is answered rightly and the edit is not."""
    if control is None:
        return False
    return control.after[classifier].right and not edit.after[classifier].right


def _wordings_in_turns(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs with those of each wording in turns, so that the first ones show all of them."""
    turns = Counter[WordingKey]()
    placed: list[tuple[int, int]] = []
    for place, pair in enumerate(pairs):
        placed.append((turns[pair.edit.wording_key], place))
        turns[pair.edit.wording_key] += 1
    return [pairs[place] for _, place in sorted(placed)]


def _wordings(edits: Iterable[Observation]) -> list[WordingCount]:
    counted = Counter((edit.removed, edit.added) for edit in edits)
    ordered = sorted(counted, key=lambda words: (-counted[words], words))
    return [WordingCount(removed=words[0], added=words[1], n=counted[words]) for words in ordered]
