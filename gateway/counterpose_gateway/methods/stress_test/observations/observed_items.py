"""Observations made from columns when they are looked at, so that a large run's need no memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from counterpose_core.contract.confirmation import Wording
from counterpose_core.contract.findings import Screened
from counterpose_core.statistics.coded import Floats, Ints, in_order, means_by
from counterpose_core.stress_test.screening import Candidate, Change
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.observations.observations import Observation, observed
from counterpose_gateway.summaries.columns import NONE, hit

BRIDGE = "…"
"""Stands for words between two places of one change, which no caption contains."""


@dataclass(frozen=True, eq=False)
class ObservedItems(Sequence[Observation]):
    """The observations at some places of the columns."""

    columns: ItemColumns
    at: Ints

    def __len__(self) -> int:
        return len(self.at)

    @overload
    def __getitem__(self, place: int) -> Observation: ...

    @overload
    def __getitem__(self, place: slice) -> ObservedItems: ...

    def __getitem__(self, place: int | slice) -> Observation | ObservedItems:
        if isinstance(place, slice):
            return ObservedItems(self.columns, self.at[place])
        return observed(self.columns, int(self.at[place]))


@dataclass(frozen=True, eq=False)
class SourceControls(Mapping[str, Observation]):
    """Source → its control: its own placebo where that was kept, else its own reconstruction.

    ``at`` is the place of each source's control, `NONE` without one.
    """

    columns: ItemColumns
    at: Ints

    @classmethod
    def of(cls, columns: ItemColumns, reconstructions: Ints, placebos: Ints) -> SourceControls:
        """Return the controls among the items at these places."""
        at = np.full(len(columns.names["source"].names), NONE, dtype=np.intp)
        # Of several reconstructions the first counts, of several placebos the last.
        first = reconstructions[::-1]
        at[columns.source[first]] = first
        at[columns.source[placebos]] = placebos
        return cls(columns, at)

    def __getitem__(self, source: str) -> Observation:
        code = self.columns.names["source"].find(source)
        if code < 0 or self.at[code] == NONE:
            raise KeyError(source)
        return observed(self.columns, int(self.at[code]))

    def __iter__(self) -> Iterator[str]:
        names = self.columns.names["source"].names
        return (names[code] for code in np.flatnonzero(self.at != NONE).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.at != NONE))


@dataclass(frozen=True, eq=False)
class ScreenedGroup:
    """The edits of one change that a classifier saw, each with its source's control if there is one.

    ``removed`` and ``added`` are the change in the words that most of its captions use.
    """

    classifier: str
    change: Change
    removed: str
    added: str
    edits: ObservedItems
    controls: SourceControls

    @cached_property
    def _paired(self) -> tuple[Ints, Ints]:
        """The places of the edits whose source has a control that the classifier answered, and of these."""
        at, hits = self.edits.at, self.edits.columns.answers[self.classifier].hits_after
        control = self.controls.at[self.edits.columns.source[at]]
        known = (control != NONE) & (hits[control] > 0)
        return at[known], control[known]

    @cached_property
    def losses(self) -> Floats:
        """The score of each pair's control less that of its edit."""
        score = self.edits.columns.answers[self.classifier].score_after
        at, control = self._paired
        return score[control] - score[at]

    @cached_property
    def falls(self) -> tuple[Ints, Floats]:
        """The unit of each edit, and the fall of the score from its original."""
        answers, at = self.edits.columns.answers[self.classifier], self.edits.at
        return self.edits.columns.unit[at], answers.score_before[at] - answers.score_after[at]

    @property
    def units(self) -> Ints:
        """The unit of each pair."""
        return self.edits.columns.unit[self._paired[0]]

    @cached_property
    def seen(self) -> Screened:
        """What the screen saw of the change."""
        hits = self.edits.columns.answers[self.classifier].hits_after
        at, control = self._paired
        turned = self.units[hit(hits[control]) & ~hit(hits[at])]
        means = means_by(self.units, self.losses) if len(at) else np.zeros(0)
        return Screened(
            loss=float(means.mean()) if len(means) else 0.0,
            n_sources=len(means),
            n_images=len(at),
            flipped=len(np.unique(turned)),
        )

    @property
    def wordings(self) -> list[Wording]:
        """The words by which its edits show the change, those that cost most first.

        The loss of a wording is shrunk towards 0 by one imagined pair without any; ties go to the more
        frequent one. Words that go, or come in, by themselves come before those that cost up to twice as
        much: what they do is what most people take a finding to say.
        """
        columns, at = self.edits.columns, self.edits.at
        said = np.stack([columns.removed[at], columns.added[at]], axis=1)
        rows, codes, counts = np.unique(said, axis=0, return_inverse=True, return_counts=True)
        codes = codes.ravel()
        of_pairs = codes[np.isin(at, self._paired[0])]
        lost = np.bincount(of_pairs, weights=self.losses, minlength=len(rows))
        scores = (lost / (np.bincount(of_pairs, minlength=len(rows)) + 1.0)).round(9)
        best = float(scores.max(initial=0.0))
        ranked: list[tuple[bool, float, int, str, str]] = []
        for (one, other), score, count in zip(rows.tolist(), scores.tolist(), counts.tolist(), strict=True):
            removed, added = columns.name("removed", one), columns.name("added", other)
            plain = not (removed and added) and 2 * score >= best > 0
            ranked.append((not plain, -score, -count, removed, added))
        ranked.sort()
        usable = [
            (removed, added)
            for *_, removed, added in ranked
            if not any(BRIDGE in side for side in (removed, added))
        ]
        return [Wording(removed=removed, added=added) for removed, added in usable]

    def candidate_above(self, least: float) -> Candidate | None:
        """The group as a candidate for confirmation; None where it loses less than ``least``."""
        seen = self.seen
        if not seen.n_sources or seen.loss < least:
            return None
        edits = frozenset(self.edits.columns.ids[each] for each in self.edits.at.tolist())
        return Candidate(self.classifier, self.change, seen.loss, seen.n_sources, edits=edits)

    def one_per_unit(self) -> list[tuple[Observation, Observation, float]]:
        """Each unit's edit that is nearest to its mean loss, with its control: images count, not edits."""
        columns, (at, control) = self.edits.columns, self._paired
        if not len(at):
            return []
        _, places = in_order(self.units)
        distances = np.abs(self.losses - means_by(self.units, self.losses)[places])
        ids = [columns.ids[each] for each in at.tolist()]
        order = sorted(range(len(at)), key=lambda pair: (distances[pair], ids[pair]))
        nearest: dict[int, int] = {}
        for pair in order:
            nearest.setdefault(int(places[pair]), pair)
        return [
            (
                observed(columns, int(control[pair])),
                observed(columns, int(at[pair])),
                float(self.losses[pair]),
            )
            for pair in nearest.values()
        ]


def group_of(
    classifier: str, change: Change, said: tuple[str, str], columns: ItemColumns, at: Ints,
    controls: SourceControls,
) -> ScreenedGroup:  # fmt: skip
    """Return the group of the edits at these places; ``said`` are the words that most of its captions use."""
    return ScreenedGroup(classifier, change, *said, ObservedItems(columns, at), controls)
