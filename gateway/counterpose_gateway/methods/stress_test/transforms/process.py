"""Answer an image and all that operations make of it: recipes go to the classifiers, no bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from counterpose_core.contract.recipes import IDENTITY, PLACEBO, Recipe
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import InternalError
from counterpose_core.transforms.table import operation
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.transforms.given import ORIGINAL
from counterpose_gateway.methods.stress_test.transforms.material import NOTHING, Material
from counterpose_gateway.methods.stress_test.transforms.segments import segmented
from counterpose_gateway.methods.stress_test.transforms.severity.image_answers import (
    ImageAnswers,
    ImageAtLevel,
    share,
)
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls

OPERATIONS: ItemKind = "transforms"
"""The kind of the item that carries all operations of a photograph."""


def images_of(config: StressTestConfig, image: str, material: Material = NOTHING) -> Iterator[ImageAtLevel]:
    """Yield the control, the placebo, each operation at each level, but for those that are left out.

    The placebo of an operation is made where the operation is. Of given pairs, the images are looked up.
    Raises InternalError without a plan.
    """
    if not material.given:
        for recipe in _recipes_of(config, image, material):
            yield ImageAtLevel(recipe.operation, recipe.level, recipe)
        return
    size = None if config.transforms is None else config.transforms.size
    control = Recipe(material.control or image, IDENTITY, size=size)
    yield ImageAtLevel(IDENTITY, 0, control)
    yield ImageAtLevel(PLACEBO, 0, replace(control, operation=PLACEBO, seed=config.request.seed))
    # Two photographs, or two renderings, are made in the same way: one may be the other's control.
    if material.control not in (None, image):
        yield ImageAtLevel(ORIGINAL, 0, replace(control, source=image))
    for change, level, given in material.given:
        yield ImageAtLevel(change, level, replace(control, source=given))


def _recipes_of(config: StressTestConfig, image: str, material: Material) -> Iterator[Recipe]:
    plan = config.transforms
    if plan is None:
        raise InternalError("the run has no operations")
    seed = config.request.seed
    yield Recipe(image, IDENTITY, size=plan.size)
    yield Recipe(image, PLACEBO, seed=seed, size=plan.size)
    for name, levels in plan.made.items():
        row = operation(name)
        if not material.allows(row, plan.operations):
            continue
        mask = material.mask if row.needs_mask else None
        other, other_mask, *_ = material.others.get(name, (None, None))
        for level in levels:
            yield Recipe(image, name, level, seed, plan.size, mask, other, other_mask)


async def answer_operations(
    calls: Calls, config: StressTestConfig, item: LeasedItem, *, spare: bool
) -> ItemResult:
    """Predict every image that the operations make of one photograph; adaptively, those that are needed.

    An image that a classifier could not answer is without its prediction; the reason is recorded once. With
    ``spare``, a classifier that is down is left out, if another one is not.

    Raises:
        BackendError: a classifier is down, or none answered the control.
    """
    material, segment = await segmented(calls, config, item, Material.of(item.instruction))
    images = list(images_of(config, item.source_image, material))
    recipes = list(dict.fromkeys(each.recipe for each in images))
    asked = ImageAnswers(calls, config, item, spare)
    names = config.request.classifiers
    if material.levels:
        wanted = {name: {IDENTITY: [0], **levels} for name, levels in material.levels.items()}
        await asked.ask({name: _among(recipes, levels) for name, levels in wanted.items()})
    elif share(config, item.item_group) == "full":
        await asked.ask(dict.fromkeys(names, recipes))
    else:
        tested = _among(recipes, {} if config.transforms is None else config.transforms.operations)
        beside = [each for each in recipes if each not in tested]
        await asked.ask(dict.fromkeys(names, beside))
        by_operation = defaultdict[str, list[Recipe]](list)
        for each in tested:
            by_operation[each.operation].append(each)
        await asked.bisect(by_operation)
    made = asked.made(images)
    return ItemResult(
        image=item.source_image,
        caption=item.caption or "",
        predictions=made[0].predictions,
        unanswered=asked.unanswered,
        transformed=made,
        left_out=dict(material.left_out),
        segment=segment,
    )


def _among(recipes: Iterable[Recipe], levels: Mapping[str, Sequence[int]]) -> list[Recipe]:
    return [each for each in recipes if each.level in levels.get(each.operation, ())]
