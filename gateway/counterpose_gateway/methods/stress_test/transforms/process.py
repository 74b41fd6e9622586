"""Answer an image and all that operations make of it: recipes go to the classifiers, no bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpose_core.contract.recipes import IDENTITY, PLACEBO, Recipe
from counterpose_core.contract.runs import ItemResult, PredictionPair, TransformedImage
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import CounterposeError, InternalError
from counterpose_gateway.methods.stress_test.attempt import Attempt
from counterpose_gateway.runs.items import LeasedItem
from counterpose_gateway.runs.predictions import Answers, answered_pairs, classify_images
from counterpose_gateway.services.ports import Services

IMAGES_A_CALL = 32
"""Images that one call makes and answers: seconds on a processor; a caller renews its lease in between."""


def recipes_of(config: StressTestConfig, image: str) -> Iterator[Recipe]:
    """Yield the control, the placebo, each operation at each level; raises InternalError without a plan."""
    plan = config.transforms
    if plan is None:
        raise InternalError("the run has no operations")
    seed = config.request.seed
    yield Recipe(image, IDENTITY, size=plan.size)
    yield Recipe(image, PLACEBO, seed=seed, size=plan.size)
    for name, levels in plan.operations.items():
        for level in levels:
            yield Recipe(image, name, level=level, seed=seed, size=plan.size)


async def answer_operations(attempt: Attempt, item: LeasedItem, services: Services) -> None:
    """Predict every image that the operations make of one photograph, and record the item as done.

    An image that a classifier could not answer is without its prediction; the reason is recorded once.

    Raises:
        BackendError: a classifier is down, or none answered the control.
    """
    config = attempt.config
    recipes = list(recipes_of(config, item.source_image))
    made: list[TransformedImage] = []
    unanswered: dict[str, str] = {}
    for first in range(0, len(recipes), IMAGES_A_CALL):
        part = recipes[first : first + IMAGES_A_CALL]
        answers = await classify_images(
            attempt, config.request.classifiers, [str(each) for each in part], config.classes, services,
            spare=attempt.is_last,
        )  # fmt: skip
        for recipe in part:
            pairs, missing = _pairs(answers, recipe, item.label, config.classes)
            unanswered = missing | unanswered
            made.append(
                TransformedImage(
                    operation=recipe.operation, level=recipe.level, recipe=str(recipe), predictions=pairs
                )
            )
    control = made[0]
    result = ItemResult(
        image=item.source_image,
        caption=item.caption or "",
        predictions=control.predictions,
        unanswered=unanswered,
        transformed=made,
    )
    await attempt.done(item, result)


def _pairs(
    answers: dict[str, Answers], recipe: Recipe, label: str, classes: Sequence[str]
) -> tuple[dict[str, PredictionPair], dict[str, str]]:
    try:
        return answered_pairs(answers, str(recipe), label, classes)
    except CounterposeError as error:
        if recipe.operation == IDENTITY:
            # Without the control, no other image of this photograph can be compared.
            raise
        return {}, dict.fromkeys(answers, error.detail)
