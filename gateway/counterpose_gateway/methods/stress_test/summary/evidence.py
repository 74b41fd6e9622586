"""The recorded figures of a run, as columns of one classifier: the input of estimates and insights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from counterpose_core.contract.runs import Item
from counterpose_core.statistics.coded import Flags, Floats, Ints, in_order
from counterpose_core.statistics.contrast import Contrast
from counterpose_core.stress_test.effects import Change, Effects
from counterpose_core.types import EditType, ItemKind
from counterpose_gateway.methods.stress_test.columns import ItemColumns, columns_of
from counterpose_gateway.summaries.columns import NONE, Answers, hit


@dataclass(frozen=True, eq=False)
class Shots:
    """Generated images of one kind, each with one classifier's predictions of it and of its original.

    ``at`` are their places in the columns, in planned order.
    """

    columns: ItemColumns
    answers: Answers
    at: Ints

    def __len__(self) -> int:
        return len(self.at)

    def where(self, chosen: Flags) -> Shots:
        """Those of the shots for which ``chosen`` is true."""
        return Shots(self.columns, self.answers, self.at[chosen])

    def of(self, column: str, name: str) -> Shots:
        """Those whose item has this name in a column."""
        return self.where(self.columns.of(column, name)[self.at])

    @cached_property
    def source(self) -> Ints:
        """The image that each was made from; its original and its controls have the same."""
        return self.columns.source[self.at]

    @cached_property
    def unit(self) -> Ints:
        """The unit of every estimate: the group of alike sources, or the source alone."""
        return self.columns.unit[self.at]

    @property
    def n_sources(self) -> int:
        """How many sources they are made from."""
        return len(np.unique(self.source))

    @cached_property
    def before(self) -> Floats:
        """The score of the originals."""
        return self.answers.score_before[self.at]

    @cached_property
    def after(self) -> Floats:
        """The score of the images."""
        return self.answers.score_after[self.at]

    @property
    def hits_before(self) -> Ints:
        """The coded hits of the originals."""
        return self.answers.hits_before[self.at]

    @property
    def hits_after(self) -> Ints:
        """The coded hits of the images."""
        return self.answers.hits_after[self.at]

    @cached_property
    def delta_p(self) -> Floats:
        """Change of the score; negative if the image hurts."""
        return self.after - self.before

    def drop(self, figure: int = 0) -> Floats:
        """1 where a headline figure loses its hit, -1 where it gains one."""
        return hit(self.hits_before, figure).astype(np.float64) - hit(self.hits_after, figure)

    @property
    def changes_answer(self) -> Flags:
        """Whether the answer changes, right or wrong."""
        return np.asarray(self.answers.answer_before[self.at] != self.answers.answer_after[self.at])

    @property
    def last_of_source(self) -> Shots:
        """The last shot of each source, in the order of the sources' first ones."""
        sources, places = in_order(self.source)
        last = np.zeros(len(sources), dtype=np.intp)
        last[places] = np.arange(len(self))
        return Shots(self.columns, self.answers, self.at[last])

    def ids(self) -> list[str]:
        """The ids of their items."""
        return [self.columns.ids[at] for at in self.at.tolist()]


def shots(columns: ItemColumns, classifier: str, kind: ItemKind) -> Shots:
    """Done items of a kind in the screen that hold this classifier's predictions, before and after."""
    answers = columns.answers.get(classifier) or _unanswered(len(columns))
    # The images of later stages were chosen by the outcomes of the screen: they enter no other figure.
    taken = columns.screened & columns.done & columns.of("kind", kind) & answers.known
    return Shots(columns, answers, np.flatnonzero(taken).astype(np.int32))


def _unanswered(length: int) -> Answers:
    nothing, none = np.full(length, np.nan), np.zeros(length, dtype=np.int32)
    return Answers(nothing, nothing, none, none, none, none)


def joined(parts: Sequence[Shots]) -> Shots:
    """All shots of one classifier, one part after the other."""
    first = parts[0]
    return Shots(first.columns, first.answers, np.concatenate([part.at for part in parts]))


def hardest(seen: Iterable[Shots]) -> str:
    """The item whose image lowers p(true class) most; empty without images."""
    worst: list[tuple[float, str]] = []
    for each in seen:
        if len(each):
            lowest = each.where(each.delta_p == each.delta_p.min())
            worst.append((float(lowest.delta_p[0]), min(lowest.ids())))
    return min(worst, default=(0.0, ""))[1]


@dataclass(frozen=True, eq=False)
class Evidence:
    """All predictions of one classifier in a run."""

    classifier: str
    edits: Shots
    reconstructions: Shots
    placebos: Shots
    lance_r: Shots
    interventions: Shots

    @classmethod
    def of(
        cls, items: ItemColumns | Iterable[Item], classifier: str, groups: Mapping[str, str] | None = None
    ) -> Evidence:
        """Collect it from the columns of the run, or from its items.

        ``groups`` names the group of items' sources that are alike, such as frames of one video; a source
        that is not in it is a unit of its own. Columns know their units.
        """
        columns = items if isinstance(items, ItemColumns) else columns_of(items, groups)
        return cls(
            classifier,
            shots(columns, classifier, "edit"),
            shots(columns, classifier, "reconstruction"),
            shots(columns, classifier, "placebo"),
            shots(columns, classifier, "lance-r"),
            shots(columns, classifier, "intervention"),
        )

    @property
    def everything(self) -> Shots:
        """Edits and controls; baseline and interventions are separate and do not change their figures."""
        return joined([self.edits, self.reconstructions, self.placebos])

    @cached_property
    def covered(self) -> Ints:
        """The sources with a reconstruction and at least one kept edit, which every row covers."""
        return np.intersect1d(self.edits.source, self.reconstructions.source)

    def paired(self, shots: Shots) -> Shots:
        """Those of the shots whose source is covered."""
        return shots.where(np.isin(shots.source, self.covered))

    def of_type(self, edit_type: EditType) -> Shots:
        """The kept edits of one type."""
        return self.edits.of("edit_type", edit_type)

    def contrast(self, shots: Shots) -> Contrast | None:
        """The fall of the score beyond each source's own placebo."""
        return self._beyond_placebo(shots, lambda shots: 1.0 - shots.after)

    def mistakes(self, shots: Shots) -> Contrast | None:
        """The rise of the share of wrong answers beyond each source's own placebo."""
        return self._beyond_placebo(shots, lambda shots: (~hit(shots.hits_after)).astype(np.float64))

    def _beyond_placebo(self, shots: Shots, loss: Callable[[Shots], Floats]) -> Contrast | None:
        own = np.full(len(shots.columns.names["source"].names), math.nan)
        own[self.placebos.source] = loss(self.placebos)
        sources, index = in_order(shots.source)
        units = np.zeros(len(sources), dtype=np.int64)
        units[index] = shots.unit
        places = _distinct(self._planned[shots.at], shots.source)
        return Contrast.between(loss(shots), index, own[sources], groups=units.tolist(), places=places)

    @cached_property
    def _planned(self) -> Ints:
        """A number of each item that orders those of a source, the same for sources of one group."""
        columns = self.edits.columns
        names = columns.names["edit_type"].names
        # An item without a type comes first, as an empty name does; its code is the last one.
        ranks = np.append(np.argsort(np.argsort(names)) + 1, 0) if names else np.zeros(1, dtype=np.intp)
        slots = int(columns.slot.max(initial=0)) + 1
        return ranks[columns.edit_type].astype(np.int64) * slots + columns.slot

    @cached_property
    def effects(self) -> Effects:
        """The kept edits in words."""
        columns = self.edits.columns
        edits = self.edits.where(columns.edit_type[self.edits.at] != NONE)
        change, changes = _changes(edits)
        return Effects(
            columns.ids, columns.names["unit"].names, changes, edits.at, edits.unit, change, edits.delta_p,
            self._reconstructed[edits.source] - edits.after, np.arange(len(edits), dtype=np.int32),
        )  # fmt: skip

    @cached_property
    def _reconstructed(self) -> Floats:
        scores = np.full(len(self.edits.columns.names["source"].names), math.nan)
        scores[self.reconstructions.source] = self.reconstructions.after
        return scores


def _changes(edits: Shots) -> tuple[Ints, list[Change]]:
    """The number of each edit's change of words, and the changes."""
    columns, at = edits.columns, edits.at
    table = np.stack(
        [columns.label[at], columns.edit_type[at], columns.removed[at], columns.added[at]], axis=1
    )
    rows, numbers = np.unique(table, axis=0, return_inverse=True)
    changes = [
        Change(
            columns.name("label", label),
            cast(EditType, columns.name("edit_type", edit_type)),
            columns.name("removed", removed),
            columns.name("added", added),
        )
        for label, edit_type, removed, added in rows.tolist()
    ]
    return numbers.reshape(-1).astype(np.int32), changes


def _distinct(places: Ints, sources: Ints) -> Ints:
    """Number images with one place and source apart, so that the places of a source differ."""
    order = np.lexsort((places, sources))
    pairs = np.stack([sources[order], places[order]])
    starts = np.flatnonzero(np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)))
    if not len(places):
        return places
    lengths = np.diff(np.append(starts, len(order)))
    repeats = np.arange(len(order)) - np.repeat(starts, lengths)
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = places[order] * lengths.max() + repeats
    return numbers
