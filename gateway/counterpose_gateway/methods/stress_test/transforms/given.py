"""Pairs that were made elsewhere: their images stand where an operation would make one.

Each image of a dataset of pairs says which image of the tested dataset it was made of, what was changed, and
how much. What cannot be compared is left out by name, whatever the classifiers would answer.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from counterpose_core.contract.datasets import Pairing, Source
from counterpose_core.contract.recipes import working_shape
from counterpose_core.contract.transforms import GivenPairs, RowsLeftOut, TransformPlan
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.methods.stress_test.transforms.material import NOTHING, Material
from counterpose_gateway.records.source_table import SourceTable, TableSource

NO_PAIR = "it is of no pair"
NOT_MADE = "no image was made"
NO_SOURCE = "the run has no image of this source and class"
SEVERAL_SOURCES = "several images have the file name and the class of its source"
REPEATED = "another image is given for the same source, change and level"
SAME = "it is the image that it was made of, with nothing changed"
OTHER_SIZE = "it has another size than what it is held against"
INCOMPLETE = "its source has no image at another level of the change"
NO_CHANGE = "no image that can be tested is held against it"
LIMITED = "the run's limit leaves its source out"
NO_CONTROL = "its source has no control, which others have"
ORIGINAL = "original"
"""What the source of given pairs is called beside its control: what the making alone costs."""

MOST_REASONS = 20
"""Reasons why no image was made that are told apart."""
NAMED = 5
"""Images that are named for each reason."""


@dataclass(frozen=True)
class GivenChange:
    """What was changed in given pairs, as `transforms.table.Operation` says it of operations."""

    name: str
    levels: int
    family: str = "given"
    changes: str = "What the table of the pairs says."
    keeps: str = "Everything else."

    def in_words(self, level: int, *, scaled: bool = False) -> str:
        """Return what the image is at a level; nothing is ever ``scaled``."""
        return f"has the given change {self.name!r}{f' at level {level}' if self.levels > 1 else ''}"

    def called(self, *, scaled: bool) -> str:
        """Return the title."""
        return self.name


@dataclass
class Pairs:
    """The pairs of a dataset: what is given with each source, by its id, and what is left out, by the reason.

    ``names`` are the file names of what is given, by the source's id; ``levels`` are those of each change.
    """

    materials: dict[str, Material] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    names: dict[str, list[str]] = field(default_factory=dict)
    levels: dict[str, list[int]] = field(default_factory=dict)
    rows: int = 0
    digest: str = ""

    def of(self, source: TableSource) -> Material:
        """Return what is given with one source."""
        return self.materials.get(source.id, NOTHING)

    def require(self, dataset: str) -> None:
        """Refuse a dataset of which no pair is left.

        Raises:
            InvalidRequest: none is.
        """
        if not self.materials:
            told = "; ".join(map(str, _told(self.left_out)))
            raise InvalidRequest(
                f"no pair of dataset {dataset!r} can be tested: {told}", pointer="/transforms/pairs"
            )

    def plan(self, plan: TransformPlan, dataset: str, sources: SourceTable) -> TransformPlan:
        """Return the plan with the changes and where they come from, of a run of ``sources``."""
        taken = {sources.id(number) for number in range(len(sources))}
        untaken = [name for source, names in self.names.items() if source not in taken for name in names]
        out = _told(self.left_out | ({LIMITED: untaken} if untaken else {}))
        given = GivenPairs(
            dataset=dataset,
            digest=self.digest,
            rows=self.rows,
            used=self.rows - sum(each.number for each in out),
            controls=all(each.control is not None for each in self.materials.values()),
            left_out=out,
        )
        return plan.model_copy(update={"operations": self.levels, "given": given})


def _told(left_out: Mapping[str, Sequence[str]]) -> list[RowsLeftOut]:
    return [
        RowsLeftOut(reason=why, number=len(names), names=list(names[:NAMED]))
        for why, names in sorted(left_out.items())
    ]


def pairs_of(sources: SourceTable, table: SourceTable, size: int | None) -> Pairs:
    """Join the images of a dataset of pairs with what they were made of.

    Args:
        sources: the images that are tested.
        table: the dataset of pairs.
        size: pixels of the longest working side, or None for each image's own.
    """
    pairs, counted = Pairs(), hashlib.sha256()
    named = defaultdict[tuple[str, str], list[Source]](list)
    for source in _own(sources):
        named[source.label, source.filename].append(source)
    rows: list[_Rows] = []
    of = dict[str, _Rows]()
    for each in table.details.sources():
        pairs.rows += 1
        pair = each.pair
        told = None if pair is None else list(pair.model_dump().values())
        counted.update(json.dumps([each.label, told, each.image]).encode())
        if pair is not None and pair.not_made is not None:
            why = f"{NOT_MADE}: {pair.not_made}"
            is_shown = why in pairs.left_out or len(pairs.left_out) < MOST_REASONS
            pairs.left_out[why if is_shown else NOT_MADE].append(each.filename)
            continue
        origins = [] if pair is None else named.get((each.label, pair.source), [])
        if pair is None or len(origins) != 1:
            why = NO_PAIR if pair is None else SEVERAL_SOURCES if origins else NO_SOURCE
            pairs.left_out[why].append(each.filename)
            continue
        if origins[0].id not in of:
            rows.append(of.setdefault(origins[0].id, _Rows(origins[0], pairs.left_out, size)))
        of[origins[0].id].take(each, pair)
    pairs.digest = counted.hexdigest()
    has_controls = any(each.control is not None for each in rows)
    for of_source in rows:
        of_source.compare(has_controls)
    for change, level in sorted({key for of_source in rows for key in of_source.changed}):
        pairs.levels.setdefault(change, []).append(level)
    for of_source in rows:
        material = of_source.material(pairs.levels)
        if material.given:
            pairs.materials[of_source.origin.id] = material
            pairs.names[of_source.origin.id] = of_source.names
    tested = {change for each in pairs.materials.values() for change, _, _ in each.given}
    pairs.levels = {change: levels for change, levels in pairs.levels.items() if change in tested}
    return pairs


def _own(sources: SourceTable) -> Iterator[Source]:
    """The images of a table, which may be a part of those that its columns have."""
    wanted = set(sources.places.tolist())
    return (source for place, source in enumerate(sources.details.sources()) if place in wanted)


@dataclass
class _Rows:
    """What is given with one source; ``left_out`` takes the names of what cannot be compared."""

    origin: Source
    left_out: dict[str, list[str]]
    size: int | None
    control: Source | None = None
    changed: dict[tuple[str, int], Source] = field(default_factory=dict)

    def take(self, row: Source, pair: Pairing) -> None:
        if pair.change is None:
            again, fits = self.control is not None, self._fits(row)
            if again or not fits:
                self.left_out[REPEATED if again else OTHER_SIZE].append(row.filename)
            else:
                self.control = row
        elif self.changed.setdefault((pair.change, pair.level), row) is not row:
            self.left_out[REPEATED].append(row.filename)

    def compare(self, has_controls: bool) -> None:
        """Leave out what is no change, or has another size; all, where others have a control and this not."""
        same = {self.origin.image, None if self.control is None else self.control.image}
        for key, row in list(self.changed.items()):
            why = None
            if row.image in same:
                why = SAME
            elif not self._fits(row):
                why = OTHER_SIZE
            elif has_controls and self.control is None:
                why = NO_CONTROL
            if why is not None:
                self.left_out[why].append(row.filename)
                del self.changed[key]

    def material(self, levels: Mapping[str, Sequence[int]]) -> Material:
        """What a run has of the source: each change of which there is an image at every level."""
        lacks = {
            change: INCOMPLETE
            for change, _ in self.changed
            if any((change, level) not in self.changed for level in levels[change])
        }
        given = [
            (change, level, row.image)
            for (change, level), row in sorted(self.changed.items())
            if change not in lacks
        ]
        out = [row.filename for (change, _), row in self.changed.items() if change in lacks]
        self.changed = {key: row for key, row in self.changed.items() if key[0] not in lacks}
        if out:
            self.left_out[INCOMPLETE].extend(out)
        if self.control is not None and not given:
            self.left_out[NO_CHANGE].append(self.control.filename)
        return Material(
            given=given, control=None if self.control is None else self.control.image, left_out=lacks
        )

    @property
    def names(self) -> list[str]:
        """The file names of what is given."""
        control = () if self.control is None else (self.control,)
        return [row.filename for row in (*control, *self.changed.values())]

    def _fits(self, row: Source) -> bool:
        return self._shape(row) == self._shape(self.origin)

    def _shape(self, image: Source) -> tuple[int, int]:
        return working_shape((image.height, image.width), self.size)
