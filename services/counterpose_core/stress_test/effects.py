"""The effects of edits on one classifier, one by one and as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np

from counterpose_core.statistics.coded import Floats, Ints, in_order
from counterpose_core.types import EditType


@dataclass(frozen=True)
class Effect:
    """The effect of one counterfactual on one classifier.

    ``delta_p`` is p(true class) after the edit minus before. ``beyond`` is p(true class) of the source's
    reconstruction minus that of the counterfactual, or None if the source has no reconstruction.

    ``source`` is what counts once: the source image, or the group of those that are not independent.
    """

    item: str
    source: str
    object_class: str
    edit_type: EditType
    removed: str
    added: str
    delta_p: float
    beyond: float | None = None


class Change(NamedTuple):
    """A class, an edit type and the changed words, as written in the captions."""

    object_class: str
    edit_type: EditType
    removed: str
    added: str


@dataclass(frozen=True, eq=False)
class Effects(Sequence[Effect]):
    """Effects on one classifier as columns.

    ``at`` are the places of their items in ``ids``; ``source`` and ``change`` number ``sources`` and
    ``changes``. ``beyond`` is NaN without a reconstruction. ``chosen`` are the places of these effects in the
    columns: the groups of a run share them.
    """

    ids: Sequence[str]
    sources: Sequence[str]
    changes: Sequence[Change]
    all_at: Ints
    all_source: Ints
    all_change: Ints
    all_delta_p: Floats
    all_beyond: Floats
    chosen: Ints

    @classmethod
    def of(cls, effects: Iterable[Effect]) -> Effects:
        """Return effects as columns; of several with one item the last counts."""
        if isinstance(effects, Effects):
            return effects
        found = list({effect.item: effect for effect in effects}.values())
        sources = {name: code for code, name in enumerate(dict.fromkeys(one.source for one in found))}
        changes = {said: code for code, said in enumerate(dict.fromkeys(map(_change, found)))}
        return cls(
            [one.item for one in found],
            list(sources),
            list(changes),
            np.arange(len(found)),
            np.array([sources[one.source] for one in found], dtype=np.intp),
            np.array([changes[_change(one)] for one in found], dtype=np.intp),
            np.array([one.delta_p for one in found], dtype=np.float64),
            np.array([np.nan if one.beyond is None else one.beyond for one in found], dtype=np.float64),
            np.arange(len(found)),
        )

    @property
    def at(self) -> Ints:
        """The places of their items in ``ids``."""
        return self.all_at[self.chosen]

    @property
    def source(self) -> Ints:
        """The number of each one's source."""
        return self.all_source[self.chosen]

    @property
    def change(self) -> Ints:
        """The number of each one's change."""
        return self.all_change[self.chosen]

    @property
    def delta_p(self) -> Floats:
        """Each one's change of p(true class)."""
        return self.all_delta_p[self.chosen]

    @property
    def n_sources(self) -> int:
        """How many sources they have."""
        return len(np.unique(self.source))

    @property
    def items(self) -> list[str]:
        """The ids of their items."""
        return [self.ids[at] for at in self.at.tolist()]

    def take(self, places: Ints) -> Effects:
        """Those at these places, in this order."""
        return Effects(
            self.ids, self.sources, self.changes, self.all_at, self.all_source, self.all_change,
            self.all_delta_p, self.all_beyond, self.chosen[places],
        )  # fmt: skip

    def places_of(self, items: frozenset[str] | Ints) -> Ints:
        """The places of items that are among them, in the order of the items' ids."""
        at = self.at
        if isinstance(items, frozenset):
            known = {self.ids[each]: place for place, each in enumerate(at.tolist())}
            return np.array([known[name] for name in sorted(items & known.keys())], dtype=np.intp)
        places = np.flatnonzero(np.isin(at, items))
        names = [self.ids[each] for each in at[places].tolist()]
        return places[sorted(range(len(places)), key=names.__getitem__)]

    def counted_changes(self) -> list[tuple[Change, int]]:
        """Each change that they have, in the order of its first effect, and its number of effects."""
        changes, places = in_order(self.change)
        counts = np.bincount(places, minlength=len(changes)).tolist()
        return [(self.changes[code], number) for code, number in zip(changes.tolist(), counts, strict=True)]

    def __len__(self) -> int:
        return len(self.chosen)

    @overload
    def __getitem__(self, place: int) -> Effect: ...

    @overload
    def __getitem__(self, place: slice) -> Effects: ...

    def __getitem__(self, place: int | slice) -> Effect | Effects:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        row = int(self.chosen[place])
        beyond = float(self.all_beyond[row])
        source = self.sources[int(self.all_source[row])]
        said = self.changes[int(self.all_change[row])]
        delta_p = float(self.all_delta_p[row])
        item = self.ids[int(self.all_at[row])]
        return Effect(item, source, *said, delta_p, None if np.isnan(beyond) else beyond)

    def __iter__(self) -> Iterator[Effect]:
        return (self[place] for place in range(len(self)))


def _change(effect: Effect) -> Change:
    return Change(effect.object_class, effect.edit_type, effect.removed, effect.added)
