"""The columns of a run's items, and views on the kept items of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.scored import Scored
from counterpose_core.statistics.coded import Flags, Floats, Ints
from counterpose_core.types import Cost, ItemState
from counterpose_gateway.summaries.columns import NONE, Answers, Codes, FeatureRows, Ids, Vectors, hits_of


@dataclass(frozen=True)
class Sums:
    """What adds up over items."""

    cost: Cost = field(default_factory=Cost)
    service_seconds: Mapping[str, float] = field(default_factory=dict)
    unanswered: Mapping[str, Counter[str]] = field(default_factory=dict)
    predicted: int = 0


@dataclass(frozen=True, eq=False)
class ItemColumns:
    """All items of a run in planned order; the names of codes are in the `Codes` of the same name."""

    ids: Ids
    kind: Ints
    state: Ints
    stage: Ints
    slot: Ints
    source: Ints
    unit: Ints
    label: Ints
    edit_type: Ints
    reason: Ints
    code: Ints
    removed: Ints
    added: Ints
    modes: Ints
    fit: Floats
    nats: Floats
    tokens: Ints
    language_model: Ints
    clip: Ints
    tried: Ints
    outside: Ints
    drawn: Ints
    faults: Ints
    unrepeated: Ints
    verdicts: Ints
    with_result: Flags
    instruction: Ints
    names: Mapping[str, Codes]
    instructions: Sequence[Instruction]
    answers: Mapping[str, Answers]
    vectors: Mapping[str, Vectors]
    features: FeatureRows
    sums: Sums

    def __len__(self) -> int:
        return len(self.kind)

    def of(self, column: str, name: str | None) -> Flags:
        """Which items have this name in a column of codes."""
        codes: Ints = getattr(self, column)
        return np.asarray(codes == (NONE if name is None else self.names[column].find(name)))

    def name(self, column: str, code: int) -> str:
        """The name of a code of a column; empty where it is missing."""
        return "" if code == NONE else self.names[column].names[code]

    def of_state(self, at: int) -> ItemState:
        """The state of an item."""
        return cast(ItemState, self.name("state", int(self.state[at])))

    @property
    def screened(self) -> Flags:
        """Which items belong to the screen: later stages were chosen by its outcomes."""
        return np.asarray(self.stage == 1)

    @property
    def done(self) -> Flags:
        """Which items were kept."""
        return self.of("state", "done")

    @property
    def decided(self) -> Flags:
        """Which items a filter kept or dropped."""
        return self.done | self.of("state", "filtered")


@dataclass(frozen=True, eq=False)
class Predictions(Mapping[str, Scored]):
    """The predictions of an item's image, or of its source; of what it says the first alone."""

    columns: ItemColumns
    at: int
    is_after: bool

    def __getitem__(self, classifier: str) -> Scored:
        each, at = self.columns.answers[classifier], self.at
        code = int((each.hits_after if self.is_after else each.hits_before)[at])
        if not code:
            raise KeyError(classifier)
        score = float((each.score_after if self.is_after else each.score_before)[at])
        answers = each.answer_after if self.is_after else each.answer_before
        answer = self.columns.name("answer", int(answers[at]))
        shown = [(answer, score)] if answer else []
        return Scored.model_construct(score=score, hits=hits_of(code), shown=shown, raw={})

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.columns.answers if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def words_of(columns: ItemColumns, at: int) -> tuple[str, str]:
    """The removed and the added words of an item."""
    return columns.name("removed", int(columns.removed[at])), columns.name("added", int(columns.added[at]))


def total(flags: Flags) -> int:
    """How many are true."""
    return int(np.count_nonzero(flags))
