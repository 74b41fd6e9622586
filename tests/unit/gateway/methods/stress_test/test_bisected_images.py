"""Bisection of one image while a classifier goes away: its levels stay open, and the others' are found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from counterpose_core.contract.recipes import Recipe
from counterpose_core.contract.tasks import CLASSIFICATION
from counterpose_core.errors import BackendUnavailable
from counterpose_gateway.methods.stress_test.transforms.severity.image_answers import (
    ImageAnswers,
    ImageAtLevel,
)
from counterpose_gateway.records.items import LeasedGroup
from counterpose_gateway.runs.attempt import OpenItems
from fakes.ports import FakeClassifiers, fake_services
from fakes.recorder import FakeRecorder
from fakes.world import CLASSES, FakeWorld, Shown

SPECS = ["steady", "leaning"]


class Leaving(FakeClassifiers):
    """All fail from level 3 on; ``leaning`` is not there any more once it is asked for a level."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Refuse for it."""
        if request.classifier == "leaning" and any("/rotation/" in image for image in request.images):
            raise BackendUnavailable("leaning is away")
        return await super().classify(request)

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        recipe = Recipe.parsed(image)
        said = "plate" if recipe.level < 3 else "sled"
        probabilities = [1.0 if name == said else 0.0 for name in request.classes]
        return Prediction(probabilities=probabilities, top=[request.classes.index(said)])


async def bisected(*, spare: bool) -> ImageAnswers:
    world = FakeWorld()
    image = world.add(Shown("plate", "a photo of a plate"))
    group = LeasedGroup(run_id="run-1", kind="stress-test", item_group="group", config={}, items=[])
    services = fake_services(world, classifiers=Leaving(world))
    calls = OpenItems(group, services, FakeRecorder(), world.store).calls
    config: Any = SimpleNamespace(
        transforms=None,
        classes=list(CLASSES),
        request=SimpleNamespace(classifiers=SPECS, task=CLASSIFICATION),
    )
    item: Any = SimpleNamespace(label="plate", labels=None)
    asked = ImageAnswers(calls, config, item, spare)
    await asked.ask(dict.fromkeys(SPECS, (Recipe(image),)))
    await asked.bisect({"rotation": [Recipe(image, "rotation", level) for level in range(1, 6)]})
    return asked


async def test_a_classifier_that_goes_away_spares_the_other() -> None:
    asked = await bisected(spare=True)
    levels = {
        name: {recipe.level for recipe, pairs in asked.pairs.items() if name in pairs} for name in SPECS
    }
    assert levels == {"steady": {0, 1, 2, 3}, "leaning": {0}}
    assert asked.unanswered == {"leaning": "leaning is away"}
    made = asked.made(ImageAtLevel(each.operation, each.level, each) for each in asked.pairs)
    assert [each.problem for each in made if each.operation == "rotation"].count("leaning is away") == 1


async def test_it_is_waited_for_at_first() -> None:
    with pytest.raises(BackendUnavailable, match="leaning is away"):
        await bisected(spare=False)
