"""What a dataset gives to operations: masks, other backgrounds, and classes that keep their label.

An operation that no image can have is left out by name before anything runs; one that some images cannot have
is carried out on the others, and counted.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterpose_core.contract.transforms import TransformChoice, TransformPlan
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.transforms.exclusions import changed_kind
from counterpose_core.transforms.table import PUBLISHED_SIDE, Operation, Other, operation
from counterpose_gateway.records.source_table import SourceTable, TableSource

NO_MASK = "it needs a mask of the object"
NO_OTHER: Mapping[Other, str] = {
    "any": "it needs the background of another photograph with a mask",
    "same-class": "it needs the background of another photograph of the class, with a mask",
    "other-class": "it needs the background of a photograph of another class, with a mask",
}
EXCLUDED = "the request excludes it for its class"


@dataclass(frozen=True)
class Material:
    """What one photograph gives: its mask, other photographs with theirs by operation, and what it lacks.

    Of pairs that were ``given``: change, level and image of each, and the image of its control.
    ``levels`` are those of each operation that a later stage asks of each classifier; empty in the first.
    """

    mask: str | None = None
    others: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    given: Sequence[tuple[str, int, str]] = ()
    control: str | None = None
    levels: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, instruction: Mapping[str, Any] | None) -> Material:
        """Read the instruction of an item."""
        return cls(**(instruction or {}))

    def allows(self, row: Operation, tested: Collection[str]) -> bool:
        """Whether an operation is carried out on the photograph; a placebo, where one that it is of is.

        Args:
            row: the operation.
            tested: the operations of the run, without those that are only placebos.
        """
        if row.needs_mask and self.mask is None:
            return False
        if row.name in tested:
            return row.name not in self.left_out
        return any(operation(name).placebo == row.name and name not in self.left_out for name in tested)

    @property
    def instruction(self) -> Mapping[str, Any] | None:
        """What an item says of it; None where there is nothing to say, as of images without masks."""
        said = {name: value for name, value in vars(self).items() if value}
        return said or None


NOTHING = Material()


class Backgrounds:
    """The photographs whose backgrounds others get, in an order that no class or upload decides.

    Args:
        pool: the photographs.
        is_own: whether they are the photographs of the run itself: then only those with a mask are taken,
            for the objects of others would be as right an answer.
        is_segmented: whether a segmenter makes the masks that they lack.
    """

    def __init__(self, pool: SourceTable, *, is_own: bool, is_segmented: bool = False) -> None:
        is_any = is_segmented or not is_own
        numbers = np.arange(len(pool)) if is_any else np.flatnonzero(pool.masked())
        self._pool, self._is_own = pool.take(numbers), is_own
        # Ids are digests: in their order, classes and groups are mixed.
        order, _ = self._pool.in_order_of_ids()
        self._all: Sequence[int] = order.tolist()
        self._of_class = defaultdict[str, list[int]](list)
        for number in self._all:
            self._of_class[self._pool.label(number)].append(number)

    def lacks(self, other: Other) -> bool:
        """Whether there are too few for any photograph to get one."""
        if not self._is_own:
            # One photograph may stand behind all; behind itself, it is left out there.
            return not self._all
        units = self._pool.units_by_label()
        if other == "same-class":
            return max(units.values(), default=0) < 2
        return len(units) < 2 if other == "other-class" else sum(units.values()) < 2

    def chosen(self, row: Operation, source: TableSource, seed: int) -> Sequence[str | None] | None:
        """Return image and mask of the photograph for one operation on another; None if there is none.

        Where a segmenter is to make the mask, the photograph's class follows.

        The same seed, operation and photograph choose the same one of a dataset.
        """
        same = row.other == "same-class"
        if row.other == "other-class" and len(self._of_class) < 2:
            return None
        places = self._of_class.get(source.label, []) if same else self._all
        text = json.dumps([seed, row.name, source.id], separators=(",", ":"))
        start = int(hashlib.sha256(text.encode()).hexdigest(), 16)
        for step in range(len(places)):
            number = places[(start + step) % len(places)]
            if self._fits(number, source, row):
                mask = self._pool.mask(number)
                is_bare = self._is_own and mask is None
                return [self._pool.image(number), mask, *([self._pool.label(number)] if is_bare else ())]
        return None

    def _fits(self, number: int, source: TableSource, row: Operation) -> bool:
        pool = self._pool
        if pool.image(number) == source.image or pool.id(number) == source.id:
            return False
        if source.group is not None and pool.group(number) == source.group:
            return False
        return row.other != "other-class" or pool.label(number) != source.label


def fitted(
    plan: TransformPlan,
    choice: TransformChoice,
    classes: Sequence[str],
    sources: SourceTable,
    backgrounds: SourceTable | None,
) -> TransformPlan:
    """Return the plan of operations that the images can have, with their placebos and what is excluded.

    Args:
        plan: as the request and the suite have it.
        choice: what the request says.
        classes: those of the dataset.
        sources: the images of the run.
        backgrounds: photographs of another dataset for backgrounds, or None for the run's own.

    Raises:
        InvalidRequest: a class or an operation to exclude does not exist, or no operation is left.
    """
    rows = [operation(name) for name in plan.operations]
    excluded = _excluded(rows, choice.excluded, classes)
    masked = sources.masked()
    segmenter = None if masked.all() else plan.segmenter
    pools = _pools(rows, sources, backgrounds, is_segmented=segmenter is not None)
    has_masks = bool(masked.any()) or segmenter is not None
    left_out = dict(plan.left_out)
    for row in rows:
        if all(row.name in excluded.get(name, {}) for name in classes):
            left_out[row.name] = "it is excluded for every class of the dataset"
        elif row.needs_mask and not has_masks:
            left_out[row.name] = f"{NO_MASK}, and no image has one"
        elif row.other is not None and pools[row.other].lacks(row.other):
            left_out[row.name] = f"{NO_OTHER[row.other]}, and there is none"
    kept = {name: levels for name, levels in plan.operations.items() if name not in left_out}
    if not kept:
        name, why = next(iter(left_out.items()))
        raise InvalidRequest(f"no operation is left: {name!r} is left out, as {why}", pointer="/transforms")
    # What is left out anyway needs no word for single classes.
    excluded = {
        label: told
        for label, why in excluded.items()
        if (told := {name: reason for name, reason in why.items() if name in kept})
    }
    update = {
        "operations": kept,
        "left_out": left_out,
        "placebos": _placebos(kept),
        "excluded": excluded,
        "segmenter": segmenter if any(operation(name).needs_mask for name in kept) else None,
        "scaled": any(min(side, plan.size or side) != PUBLISHED_SIDE for side in sources.sides),
    }
    return plan.model_copy(update=update)


def _excluded(
    rows: Sequence[Operation], asked: Mapping[str, Sequence[str]], classes: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return why operations are not carried out on a class's images, by class and operation."""
    for label, names in asked.items():
        if label not in classes:
            raise InvalidRequest(
                f"the dataset has no class {label!r}{did_you_mean(label, classes)} to exclude operations for",
                pointer="/transforms/excluded",
            )
        for name in names:
            operation(name)
    found = dict[str, dict[str, str]]()
    for label in classes:
        kinds = {row.name: changed_kind(row, label) for row in rows}
        why = {name: f"it may change the label of {kind}" for name, kind in kinds.items() if kind is not None}
        found[label] = why | dict.fromkeys(asked.get(label, ()), EXCLUDED)
    return found


def _placebos(operations: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the levels of the operations that others are compared with, by name."""
    found = defaultdict[str, set[int]](set)
    for name, levels in operations.items():
        row = operation(name)
        if row.placebo:
            found[row.placebo].update(map(row.placebo_level, levels))
    return {name: sorted(levels) for name, levels in found.items()}


def _pools(
    rows: Sequence[Operation], sources: SourceTable, backgrounds: SourceTable | None, *, is_segmented: bool
) -> Mapping[Other, Backgrounds]:
    """Return the photographs that give backgrounds; classes are compared within the dataset only."""
    wanted = {row.other for row in rows if row.other is not None}
    own = Backgrounds(sources, is_own=True, is_segmented=is_segmented) if wanted else None
    given = None if backgrounds is None else Backgrounds(backgrounds, is_own=False)
    pools = {other: given if given is not None and other == "any" else own for other in wanted}
    return {other: pool for other, pool in pools.items() if pool is not None}


class Materials:
    """What each photograph of a run gives to its operations."""

    def __init__(
        self, plan: TransformPlan, seed: int, sources: SourceTable, backgrounds: SourceTable | None
    ) -> None:
        self._plan, self._seed = plan, seed
        self._rows = [operation(name) for name in plan.operations]
        self._masking = [row for row in self._rows if row.needs_mask]
        self._is_segmented = plan.segmenter is not None
        self._pools = _pools(self._rows, sources, backgrounds, is_segmented=self._is_segmented)

    def of(self, source: TableSource) -> Material:
        """Return what one photograph gives."""
        left_out = dict(self._plan.excluded.get(source.label, {}))
        others = dict[str, Sequence[str | None]]()
        for row in self._masking:
            if row.name in left_out:
                continue
            if source.mask is None and not self._is_segmented:
                left_out[row.name] = f"{NO_MASK}, which the image has not"
            elif row.other is not None:
                chosen = self._pools[row.other].chosen(row, source, self._seed)
                if chosen is None:
                    left_out[row.name] = f"{NO_OTHER[row.other]}, and there is none for the image"
                else:
                    others[row.name] = chosen
        mask = source.mask if self._masking else None
        return Material(mask, others, left_out)
