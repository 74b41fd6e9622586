"""The sources of a dataset as a compact table, so that a plan of millions of items is made in little memory.

A source takes 32 bytes for its id, 32 for its image, and 17 for its label, its group, its place and whether
it has a caption, and in a dataset with masks 32 for its mask; a part of the table takes 12 more for each
source of it. The rest is read when needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.datasets import Source

PAGE = 500
"""Sources whose captions are read together."""

_BLOCK = 16_384
_DIGEST = 32
_ALONE = -1


class SourceDetails(Protocol):
    """Reads what a table leaves out, by the numbers of sources in the order in which they were added."""

    def captions(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the captions of those that have one."""

    def filenames(self) -> Iterator[str]:
        """Yield the file name of each source."""

    def sources(self) -> Iterator[Source]:
        """Yield each source with all that is known of it."""


@dataclass(frozen=True)
class TableSource:
    """A source as a plan needs it."""

    id: str
    image: str
    label: str
    group: str | None = None
    caption: str | None = None
    mask: str | None = None
    labels: list[str] | None = None


class Texts:
    """A column of short texts; of digests only, it is packed to half of their letters."""

    def __init__(self, values: NDArray[np.bytes_], *, packed: bool) -> None:
        self.values = values
        self._packed = packed

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """Return a column of these texts."""
        packed = bool(texts) and all(map(is_digest, texts))
        encoded = [bytes.fromhex(text) if packed else text.encode() for text in texts]
        width = max((len(each) for each in encoded), default=1)
        return cls(np.array(encoded, dtype=f"S{max(1, width)}"), packed=packed)

    @classmethod
    def of_digests(cls, n: int) -> Texts:
        """Return a column for ``n`` digests."""
        return cls(np.zeros(n, dtype=f"S{_DIGEST}"), packed=True)

    def text(self, place: int) -> str:
        """Return one text."""
        value: bytes = self.values[place]
        # NumPy takes zeros at the end for no part of the text.
        return value.ljust(_DIGEST, b"\0").hex() if self._packed else value.decode()


class Codes:
    """Numbers for texts that many rows share."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._known: dict[str, int] = {}

    def code(self, name: str | None) -> int:
        """Return the number of a text; -1 for None or none."""
        if not name:
            return _ALONE
        found = self._known.setdefault(name, len(self.names))
        if found == len(self.names):
            self.names.append(name)
        return found


@dataclass(frozen=True)
class SourceTable:
    """Sources in an order; ``places`` are their rows in the columns, which all parts of a table share.

    ``labels`` are numbers in ``label_names`` and are rows of the columns; ``groups`` are numbers in
    ``group_names``, -1 for a source that stands alone, and are in the order of this table. ``masks``, rows of
    the columns, are empty for a source without one, and None if no source has one. ``sides`` are the longest
    sides in pixels that any image of the columns has. ``sets``, rows of the columns, are numbers in
    ``label_sets``, the further labels of a source, -1 for none.
    """

    ids: Texts
    images: Texts
    labels: NDArray[np.int32]
    label_names: Sequence[str]
    captioned: NDArray[np.bool_]
    details: SourceDetails
    places: NDArray[np.intp]
    groups: NDArray[np.int32]
    group_names: Sequence[str]
    masks: Texts | None = None
    sides: frozenset[int] = frozenset()
    sets: NDArray[np.int32] | None = None
    label_sets: Sequence[list[str]] = ()

    @classmethod
    def of(cls, sources: Sequence[Source]) -> SourceTable:
        """Return a table of sources that are in memory already."""
        labels, groups, sets = Codes(), Codes(), Codes()
        further = [sets.code(json.dumps(source.labels) if source.labels else None) for source in sources]
        return cls(
            ids=Texts.of([source.id for source in sources]),
            images=Texts.of([source.image for source in sources]),
            labels=np.array([labels.code(source.label) for source in sources], dtype=np.int32),
            label_names=labels.names,
            captioned=np.array([source.caption is not None for source in sources], dtype=bool),
            details=_InMemory(sources),
            places=np.arange(len(sources)),
            groups=np.array([groups.code(source.group) for source in sources], dtype=np.int32),
            group_names=groups.names,
            masks=_masks(sources),
            sides=frozenset(max(source.width, source.height) for source in sources),
            sets=np.array(further, dtype=np.int32),
            label_sets=[json.loads(name) for name in sets.names],
        )

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[TableSource]:
        return self.rows()

    def rows(self, start: int = 0) -> Iterator[TableSource]:
        """Yield the sources from the ``start``-th on; captions are read page by page."""
        for first in range(start, len(self), PAGE):
            places = self.places[first : first + PAGE]
            wanted = places[self.captioned[places]].tolist()
            captions = self.details.captions(wanted) if wanted else {}
            for number, place in enumerate(places.tolist(), start=first):
                yield TableSource(
                    self.ids.text(place), self.images.text(place), self.label_names[int(self.labels[place])],
                    self.group(number), captions.get(place), self.mask(number), self.further_labels(number),
                )  # fmt: skip

    def take(self, which: NDArray[np.intp]) -> SourceTable:
        """Return these of the sources, in this order."""
        return replace(self, places=self.places[which], groups=self.groups[which])

    def without_id(self, ids: Iterable[str]) -> SourceTable:
        """Return the sources but for those with these ids."""
        out = set(ids)
        if not out:
            return self
        kept = [number for number in range(len(self)) if self.id(number) not in out]
        return self.take(np.array(kept, dtype=np.intp))

    def in_groups(self, groups: Mapping[str, str]) -> SourceTable:
        """Return the sources in these groups by id; those without one stand alone."""
        if not groups:
            return replace(self, groups=np.full(len(self), _ALONE, dtype=np.int32))
        codes = Codes()
        found = [codes.code(groups.get(self.id(number))) for number in range(len(self))]
        return replace(self, groups=np.array(found, dtype=np.int32), group_names=codes.names)

    def id(self, number: int) -> str:
        """Return the id of one of the sources."""
        return self.ids.text(self.places[number])

    def image(self, number: int) -> str:
        """Return the image of one of the sources."""
        return self.images.text(self.places[number])

    def label(self, number: int) -> str:
        """Return the label of one of the sources."""
        return self.label_names[int(self.labels[self.places[number]])]

    def group(self, number: int) -> str | None:
        """Return the group of one of the sources, or None."""
        code = int(self.groups[number])
        return None if code == _ALONE else self.group_names[code]

    def mask(self, number: int) -> str | None:
        """Return the mask of one of the sources, or None."""
        if self.masks is None or not self.masks.values[self.places[number]]:
            return None
        return self.masks.text(self.places[number])

    def further_labels(self, number: int) -> list[str] | None:
        """Return the further labels of one of the sources, or None."""
        code = _ALONE if self.sets is None else int(self.sets[self.places[number]])
        return None if code == _ALONE else self.label_sets[code]

    def number_labelled(self) -> int:
        """Return how many of the sources have further labels."""
        return 0 if self.sets is None else int((self.sets[self.places] != _ALONE).sum())

    def masked(self) -> NDArray[np.bool_]:
        """Return which of the sources have a mask."""
        if self.masks is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.asarray(self.masks.values[self.places] != b"")

    def in_order_of_ids(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the numbers of the sources in the order of their ids, and which have the id before them."""
        return in_order(self.ids.values[self.places])

    def in_order_of_images(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the numbers of the sources in the order of their images, and which repeat the one before."""
        return in_order(self.images.values[self.places])

    def own_labels(self) -> NDArray[np.int32]:
        """Return the number of each source's label, in the order of this table."""
        return self.labels[self.places]

    def units(self) -> NDArray[np.intp]:
        """Return a number for each source that those of one group and one class share.

        The numbers count from 0 in the order in which units appear.
        """
        n = len(self)
        keys = np.arange(n, dtype=np.int64)
        grouped = self.groups != _ALONE
        many = max(1, len(self.group_names))
        keys[grouped] = n + self.own_labels()[grouped].astype(np.int64) * many + self.groups[grouped]
        _, first, unit = np.unique(keys, return_index=True, return_inverse=True)
        # In the order of their first sources, not of their keys.
        place = np.empty(len(first), dtype=np.intp)
        place[np.argsort(first, kind="stable")] = np.arange(len(first))
        return place[unit]

    def units_by_label(self) -> dict[str, int]:
        """Return the number of units of each class that has one, in the order in which classes appear."""
        units, labels = self.units(), self.own_labels()
        _, first = np.unique(units, return_index=True)
        found, appear, counts = np.unique(labels[np.sort(first)], return_index=True, return_counts=True)
        in_order = np.argsort(appear, kind="stable")
        return {self.label_names[found[each]]: int(counts[each]) for each in in_order}

    def number_of_units(self) -> int:
        """Return how many groups and lone sources there are, whatever their classes."""
        return len(np.unique(self.groups[self.groups != _ALONE])) + int((self.groups == _ALONE).sum())


def _masks(sources: Sequence[Source]) -> Texts | None:
    if not any(source.mask for source in sources):
        return None
    masks = Texts.of_digests(len(sources))
    for number, source in enumerate(sources):
        masks.values[number] = bytes.fromhex(source.mask or "")
    return masks


class _InMemory:
    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def captions(self, numbers: Sequence[int]) -> Mapping[int, str]:
        found = {number: self._sources[number].caption for number in numbers}
        return {number: caption for number, caption in found.items() if caption is not None}

    def filenames(self) -> Iterator[str]:
        return (source.filename for source in self._sources)

    def sources(self) -> Iterator[Source]:
        return iter(self._sources)


def in_order(values: NDArray[np.bytes_]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the places of values in their order, and whether each equals the one before it there."""
    order = np.argsort(values, kind="stable")
    repeats = np.zeros(len(values), dtype=bool)
    # Block by block: all values in their order would be a second copy of them.
    for start in range(1, len(order), _BLOCK):
        these = order[start - 1 : start + _BLOCK]
        repeats[start : start + _BLOCK] = values[these[1:]] == values[these[:-1]]
    return order, repeats


def places_within(kinds: NDArray[np.signedinteger]) -> NDArray[np.intp]:
    """Return the place of each entry among those of its kind, counted from 0 in the order given."""
    order = np.argsort(kinds, kind="stable")
    _, first, counts = np.unique(kinds[order], return_index=True, return_counts=True)
    places = np.empty(len(kinds), dtype=np.intp)
    places[order] = np.arange(len(kinds)) - np.repeat(first, counts)
    return places


def is_digest(text: str) -> bool:
    """Return whether a text is a SHA-256 in small hexadecimal digits."""
    return len(text) == 2 * _DIGEST and not text.strip("0123456789abcdef")
