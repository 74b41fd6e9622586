"""What the items of a stress test asked to change, read from their captions by the grammar."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from counterpose_core.contract.runs import Item
from counterpose_core.contract.scored import Scored
from counterpose_core.statistics.bootstrap import mean_by_source
from counterpose_core.types import EditType
from counterpose_miniature.world.grammar import EDIT_TYPES, parse
from counterpose_miniature.world.scene import ATTRIBUTES, Scene, is_withheld

from .measures import Floats
from .truth import Truth

Side = Literal["removed", "added"]
Place = tuple[str, str, str, str, Side]
"""Class, edit type, attribute, value and side: a cell before any classifier."""


@dataclass(frozen=True)
class Change:
    """One edit that was made: its attribute, and the value before and after according to its captions."""

    item: str
    source: int
    object_class: str
    edit_type: EditType
    attribute: str
    removed: str
    added: str
    kept: bool
    before: Mapping[str, Scored]
    after: Mapping[str, Scored]
    rebuilt: Mapping[str, Scored] = field(default_factory=dict)

    def estimated(self, classifier: str) -> float:
        """How far p(true class) fell in the edited image."""
        return self.before[classifier].score - self.after[classifier].score

    def beyond(self, classifier: str) -> float:
        """The same drop, measured from the source's reconstruction; NaN where there is none."""
        rebuilt = self.rebuilt.get(classifier)
        return float("nan") if rebuilt is None else rebuilt.score - self.after[classifier].score

    def true(self, truth: Truth) -> float:
        """How far p(true class) falls when the same attribute of the source is changed by rendering."""
        return truth.drop(self.source, self.attribute, self.added)

    def is_withheld(self, scenes: Sequence[Scene]) -> bool:
        """Whether source or counterfactual show a combination that no generating model was trained on."""
        scene = scenes[self.source]
        return is_withheld(scene) or is_withheld(scene.changed(self.attribute, self.added))


@dataclass(frozen=True, order=True)
class Cell:
    """A class, an edit type, an attribute and the value that was removed or added, for one classifier."""

    classifier: str
    object_class: str
    edit_type: str
    attribute: str
    value: str
    side: Side


@dataclass(frozen=True)
class Row:
    """A cell's drops by source, estimated and true, in the same order.

    ``pairs`` gives the share of each change, from one value to another, every source weighing 1.
    ``beyond`` holds the estimates measured from reconstructions instead of sources, NaN where one lacks.
    """

    cell: Cell
    estimated: Floats
    true: Floats
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    beyond: Floats = field(default_factory=lambda: np.empty(0))


def asked(caption: str, edited: str) -> dict[str, tuple[str, str]]:
    """Attributes whose value differs between two captions, with both values; class included."""
    before, after = parse(caption), parse(edited)
    return {
        name: (before[name], after[name])
        for name in ATTRIBUTES
        if name in before and name in after and before[name] != after[name]
    }


def change_of(item: Item, source: int) -> Change | None:
    """The one attribute of its type that an edit asked to change; None where it asked for anything else."""
    if item.kind not in ("edit", "confirmation") or item.edit_type is None or item.result is None:
        return None
    wanted = asked(item.result.caption, item.result.edited_caption or "")
    if len(wanted) != 1:
        return None
    ((attribute, (removed, added)),) = wanted.items()
    if attribute == "object_class" or attribute not in EDIT_TYPES[item.edit_type]:
        return None
    result = item.result
    return Change(
        item=item.id,
        source=source,
        object_class=item.label,
        edit_type=item.edit_type,
        attribute=attribute,
        removed=removed,
        added=added,
        kept=item.state == "done",
        before=result.original_predictions,
        after=result.predictions,
    )


def changes_of(items: Iterable[Item], index: Mapping[str, int]) -> list[Change]:
    """All edits that were made and ask for one attribute; ``index`` gives the source of an image."""
    every = list(items)
    rebuilt = {
        index[item.source_image]: item.result.predictions
        for item in every
        if item.kind == "reconstruction" and item.result is not None
    }
    found = (change_of(item, index[item.source_image]) for item in every)
    return [replace(change, rebuilt=rebuilt.get(change.source, {})) for change in found if change is not None]


def by_source(pairs: Iterable[tuple[int, float]]) -> Floats:
    """The mean of each source, ordered by source number."""
    means = mean_by_source((f"{source:09}", value) for source, value in sorted(pairs))
    return np.array([means[name] for name in sorted(means)])


def rows_of(changes: Iterable[Change], truths: Mapping[str, Truth], *, least: int) -> list[Row]:
    """Every cell with kept edits of ``least`` sources, for every classifier.

    Two cells with the same edits count once, as where an attribute has two values.
    """
    cells = _distinct(_cells(changes))
    sources = {place: len({one.source for one in members}) for place, members in cells.items()}
    wide = {place: members for place, members in cells.items() if sources[place] >= least}
    return [
        _row(Cell(classifier, *place), members, truth)
        for classifier, truth in truths.items()
        for place, members in sorted(wide.items())
    ]


def _cells(changes: Iterable[Change]) -> dict[Place, list[Change]]:
    cells: dict[Place, list[Change]] = defaultdict(list)
    for change in changes:
        if change.kept:
            about = (change.object_class, change.edit_type, change.attribute)
            cells[*about, change.removed, "removed"].append(change)
            cells[*about, change.added, "added"].append(change)
    return cells


def _distinct(cells: Mapping[Place, Sequence[Change]]) -> dict[Place, Sequence[Change]]:
    first: dict[tuple[str, ...], Place] = {}
    for place, members in cells.items():
        first.setdefault(tuple(one.item for one in members), place)
    return {place: cells[place] for place in first.values()}


def _row(cell: Cell, members: Sequence[Change], truth: Truth) -> Row:
    return Row(
        cell=cell,
        estimated=by_source((one.source, one.estimated(cell.classifier)) for one in members),
        true=by_source((one.source, one.true(truth)) for one in members),
        pairs=_pairs(members),
        beyond=by_source((one.source, one.beyond(cell.classifier)) for one in members),
    )


def _pairs(members: Sequence[Change]) -> dict[tuple[str, str], float]:
    edits = Counter(one.source for one in members)
    shares: dict[tuple[str, str], float] = defaultdict(float)
    for one in members:
        shares[one.removed, one.added] += 1.0 / (edits[one.source] * len(edits))
    return dict(shares)
