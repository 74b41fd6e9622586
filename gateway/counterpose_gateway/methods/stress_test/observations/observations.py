"""What was observed of each item of a stress test, without the bulk of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.scored import Scored
from counterpose_core.stress_test.screening import WordingKey, wording_key
from counterpose_core.types import EditType, ItemKind, ItemState
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.columns import Predictions, words_of
from counterpose_gateway.summaries.columns import NONE

_NO_PREDICTIONS: Mapping[str, Scored] = {}


REPEATED_DRAW = "repeated-draw"
"""The reason of a pair whose image an earlier draw of the same source gave."""

Place = tuple[str, int | None]
"""A source and the number of a draw, or None where its images are made once, by the run's preset."""


@dataclass(frozen=True)
class Observation:
    """An item with its words and predictions; the predictions are empty where nothing was kept.

    ``removed`` and ``added`` are the changed words as written in their captions. ``unit`` is the group of its
    source, or the source where it stands alone: what estimates and tests count. ``drawn`` is the image of a
    draw that no seed tells from others, ``mask`` its source's own, of a run that has a region; ``labels`` its
    source's further labels.
    """

    id: str
    kind: ItemKind
    source: str
    image: str
    label: str
    edit_type: EditType | None
    slot: int
    stage: int
    state: ItemState
    reason: str | None
    caption: str | None
    removed: str
    added: str
    after: Mapping[str, Scored]
    before: Mapping[str, Scored]
    instruction: Instruction | None
    unit: str
    drawn: str = ""
    mask: str | None = None
    labels: Sequence[str] | None = None

    @property
    def done(self) -> bool:
        """Whether the item was kept."""
        return self.state == "done"

    @property
    def wording(self) -> tuple[str, str]:
        """The words that it was asked to remove and add, or those that its caption shows."""
        asked = None if self.instruction is None else self.instruction.wording
        return (self.removed, self.added) if asked is None else (asked.removed, asked.added)

    @property
    def wording_key(self) -> WordingKey:
        """The same without articles and endings."""
        return wording_key(*self.wording)

    @property
    def place(self) -> Place:
        """What pairs an edit of a confirmation with its placebo."""
        return self.source, None if self.instruction is None else self.instruction.draw


def observed(columns: ItemColumns, at: int) -> Observation:
    """Return what was observed of the item at a place of the columns, without its images and caption."""
    removed, added = words_of(columns, at)
    edit_type = columns.name("edit_type", int(columns.edit_type[at]))
    kept = columns.of_state(at) == "done"
    instruction = int(columns.instruction[at])
    return Observation(
        id=columns.ids[at],
        kind=cast(ItemKind, columns.name("kind", int(columns.kind[at]))),
        source=columns.name("source", int(columns.source[at])),
        image="",
        label=columns.name("label", int(columns.label[at])),
        edit_type=cast(EditType, edit_type) if edit_type else None,
        slot=int(columns.slot[at]),
        stage=int(columns.stage[at]),
        state=columns.of_state(at),
        reason=columns.name("reason", int(columns.reason[at])) or None,
        caption=None,
        removed=removed,
        added=added,
        after=Predictions(columns, at, is_after=True) if kept else _NO_PREDICTIONS,
        before=Predictions(columns, at, is_after=False) if kept else _NO_PREDICTIONS,
        instruction=None if instruction == NONE else columns.instructions[instruction],
        unit=columns.name("unit", int(columns.unit[at])),
        drawn=columns.name("drawn", int(columns.drawn[at])),
    )


class Draws:
    """The draws of one change so far, to tell by their images which are none of their own.

    Another seed makes another draw. Without seeds the same image may come again: then it shows nothing new.
    """

    def __init__(self) -> None:
        self._images: set[tuple[str, str]] = set()

    def repeats(self, *images: Observation) -> bool:
        """Return whether one of the images that belong together came in an earlier draw of its source."""
        own = {(image.source, image.drawn) for image in images if image.drawn}
        repeated = not own.isdisjoint(self._images)
        self._images |= own
        return repeated
