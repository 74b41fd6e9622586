"""Answer an image and all that operations make of it: recipes go to the classifiers, no bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from counterpose_core.contract.recipes import IDENTITY, PLACEBO, Recipe
from counterpose_core.contract.runs import ItemResult, PredictionPair, TransformedImage
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import CounterposeError, InternalError
from counterpose_core.transforms.table import operation
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.transforms.given import ORIGINAL
from counterpose_gateway.methods.stress_test.transforms.material import NOTHING, Material
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.steps.predictions import Answers, classify_images, prediction_pair

OPERATIONS: ItemKind = "transforms"
"""The kind of the item that carries all operations of a photograph."""

IMAGES_A_CALL = 32
"""Images that one call makes and answers: seconds on a processor; a caller renews its lease in between."""


@dataclass(frozen=True)
class Made:
    """An image to answer: what it is called, at which level, and how it is made."""

    operation: str
    level: int
    recipe: Recipe


def images_of(config: StressTestConfig, image: str, material: Material = NOTHING) -> Iterator[Made]:
    """Yield the control, the placebo, each operation at each level, but for those that are left out.

    The placebo of an operation is made where the operation is. Of given pairs, the images are looked up.
    Raises InternalError without a plan.
    """
    size = None if config.transforms is None else config.transforms.size
    if material.given:
        control = Recipe(material.control or image, IDENTITY, size=size)
        yield Made(IDENTITY, 0, control)
        yield Made(PLACEBO, 0, replace(control, operation=PLACEBO, seed=config.request.seed))
        # Two photographs, or two renderings, are made in the same way: one may be the other's control.
        if material.control not in (None, image):
            yield Made(ORIGINAL, 0, Recipe(image, IDENTITY, size=size))
        for change, level, given in material.given:
            yield Made(change, level, Recipe(given, IDENTITY, size=size))
        return
    for recipe in _recipes_of(config, image, material):
        yield Made(recipe.operation, recipe.level, recipe)


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
        other, other_mask = material.others.get(name, (None, None))
        for level in levels:
            yield Recipe(image, name, level, seed, plan.size, mask, other, other_mask)


async def answer_operations(
    calls: Calls, config: StressTestConfig, item: LeasedItem, *, spare: bool
) -> ItemResult:
    """Predict every image that the operations make of one photograph.

    An image that a classifier could not answer is without its prediction; the reason is recorded once. With
    ``spare``, a classifier that is down is left out, if another one is not.

    Raises:
        BackendError: a classifier is down, or none answered the control.
    """
    material = Material.of(item.instruction)
    images = list(images_of(config, item.source_image, material))
    made: list[TransformedImage] = []
    unanswered: dict[str, str] = {}
    for first in range(0, len(images), IMAGES_A_CALL):
        part = images[first : first + IMAGES_A_CALL]
        # Given images may be the same at two levels.
        refs = list(dict.fromkeys(str(each.recipe) for each in part))
        answers = await _answers(calls, config, refs, spare=spare)
        for each in part:
            pairs, missing = _pairs(answers, each, item.label, config)
            unanswered = missing | unanswered
            made.append(
                TransformedImage(
                    operation=each.operation,
                    level=each.level,
                    recipe=str(each.recipe),
                    pixels=_pixels(answers, each.recipe),
                    predictions=pairs,
                    problem=next(iter(missing.values()), None),
                )
            )
    control = made[0]
    return ItemResult(
        image=item.source_image,
        caption=item.caption or "",
        predictions=control.predictions,
        unanswered=unanswered,
        transformed=made,
        left_out=dict(material.left_out),
    )


def classes_of(config: StressTestConfig, classifier: str) -> list[str]:
    """The classes that a classifier may answer: the dataset's, and its own besides if they are asked for."""
    others = {} if config.transforms is None else config.transforms.others
    return [*config.classes, *others.get(classifier, ())]


async def _answers(
    calls: Calls, config: StressTestConfig, images: list[str], *, spare: bool
) -> dict[str, Answers]:
    """Ask the classifiers that answer among the same classes together."""
    asked: dict[tuple[str, ...], list[str]] = {}
    for name in config.request.classifiers:
        asked.setdefault(tuple(classes_of(config, name)), []).append(name)
    found = await together(
        classify_images(calls, names, images, classes, spare=spare) for classes, names in asked.items()
    )
    return {name: answers for each in found for name, answers in each.items()}


def _pixels(answers: dict[str, Answers], recipe: Recipe) -> str | None:
    """The digest of the image that classifiers made, if they say and made the same."""
    values = (outcomes[str(recipe)].value for outcomes in answers.values())
    digests = {value.pixels for value in values if value is not None and value.pixels is not None}
    return digests.pop() if len(digests) == 1 else None


def _pairs(
    answers: dict[str, Answers], made: Made, label: str, config: StressTestConfig
) -> tuple[dict[str, PredictionPair], dict[str, str]]:
    pairs, missing = dict[str, PredictionPair](), dict[str, str]()
    for name, outcomes in answers.items():
        try:
            answer = outcomes[str(made.recipe)].unwrap()
            pairs[name] = prediction_pair(answer, label, classes_of(config, name))
        except CounterposeError as error:
            missing[name] = error.detail
            if made.operation == IDENTITY and len(missing) == len(answers):
                # Without the control, no other image of this photograph can be compared.
                raise
    return pairs, missing
