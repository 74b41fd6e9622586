"""The pairs of a run of operations that a gate classifies again: recipes of the control and of each level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from counterpose_core.contract.recipes import IDENTITY
from counterpose_core.contract.runs import Item, TransformedImage
from counterpose_core.contract.transforms import TransformPlan
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.transforms.table import OPERATIONS


def changed_images(
    items: Iterable[Item], plan: TransformPlan
) -> Iterator[tuple[Item, TransformedImage, list[TransformedImage]]]:
    """Yield each item that is done with its control and what the planned operations made of it.

    What no classifier of the run could answer, such as an image too small for an operation, is left out, as
    are placebos.
    """
    for item in items:
        made = [] if item.result is None else item.result.transformed
        control = next((each for each in made if each.operation == IDENTITY), None)
        if control is not None and item.state == "done":
            planned = [each for each in made if each.level in plan.operations.get(each.operation, ())]
            yield item, control, [each for each in planned if each.predictions]


def operation_pairs(
    items: Iterable[Item], plan: TransformPlan, groups: Mapping[str, str]
) -> Iterator[FrozenPair]:
    """Yield every operation at every level beside the photograph at its working size.

    Each operation and level is a change of its own.
    """
    for item, control, made in changed_images(items, plan):
        for each in made:
            yield FrozenPair(
                change=change_of(each),
                label=item.label,
                unit=groups.get(item.item_group, item.item_group),
                source=control.recipe,
                image=each.recipe,
                labels=tuple(item.labels or ()),
            )


def change_of(made: TransformedImage) -> str:
    """Return the operation, or the given change, with its level; an operation of one level alone without."""
    row = OPERATIONS.get(made.operation)
    return made.operation if row is not None and row.levels == 1 else f"{made.operation} {made.level}"
