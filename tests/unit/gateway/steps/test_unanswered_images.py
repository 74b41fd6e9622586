"""Classifiers that fail on an image, or that are down: the answers of the others are there."""

from __future__ import annotations

import math

import pytest

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from counterpose_core.errors import BackendUnavailable, BadBackendOutput, CounterposeError
from counterpose_core.tasks import Truth, classification_of
from counterpose_gateway.records.items import LeasedGroup
from counterpose_gateway.runs.attempt import OpenItems
from counterpose_gateway.steps.predictions import Answers, classify_images, scored_answers
from fakes.ports import FakeClassifiers, fake_services
from fakes.recorder import FakeRecorder
from fakes.world import CLASSES, FakeWorld, Shown

SPECS = ("steady", "leaning")


class Away(FakeClassifiers):
    """Some classifiers are not there."""

    away: tuple[str, ...] = ()

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Refuse for them."""
        if request.classifier in self.away:
            raise BackendUnavailable(f"{request.classifier} is away")
        return await super().classify(request)


async def asked(*away: str, spare: bool) -> tuple[dict[str, Answers], str]:
    world = FakeWorld()
    image = world.add(Shown("plate", "a photo of a plate"))
    classifiers = Away(world)
    classifiers.away = away
    group = LeasedGroup(run_id="run-1", kind="shift-benchmark", item_group="group", config={}, items=[])
    services = fake_services(world, classifiers=classifiers)
    calls = OpenItems(group, services, FakeRecorder(), world.store).calls
    return await classify_images(calls, SPECS, [image], CLASSES, spare=spare), image


async def test_a_classifier_that_is_down_spares_the_others_if_told_to() -> None:
    answers, image = await asked("leaning", spare=True)
    pairs, missing = scored_answers(answers, image, Truth("plate"), classification_of(CLASSES))
    assert list(pairs) == ["steady"]
    assert missing == {"leaning": "leaning is away"}


async def test_a_classifier_that_is_down_is_waited_for_at_first() -> None:
    with pytest.raises(BackendUnavailable, match="leaning is away"):
        await asked("leaning", spare=False)


async def test_classifiers_that_are_all_down_spare_none() -> None:
    with pytest.raises(BackendUnavailable, match="steady is away"):
        await asked("leaning", "steady", spare=True)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (BadBackendOutput("no such colour"), "no such colour"),
        ([0.5, 0.5], "the classifier returned 2 probabilities for 4 classes"),
        ([math.nan] * 4, "the classifier returned numbers that are not probabilities"),
        ([7.0, 1.0, -3.0, 2.0], "the classifier returned numbers that are not probabilities"),
    ],
)
async def test_a_failure_on_an_image_is_that_classifiers_alone(
    failure: CounterposeError | list[float], reason: str
) -> None:
    answers, image = await asked(spare=False)
    answers["leaning"][image] = (
        Outcome[Prediction](problem=Problem.of(failure))
        if isinstance(failure, CounterposeError)
        else Outcome(value=Prediction.model_construct(probabilities=failure, top=[], features=None))
    )
    pairs, missing = scored_answers(answers, image, Truth("plate"), classification_of(CLASSES))
    assert (list(pairs), missing) == (["steady"], {"leaning": reason})
    answers["steady"] = answers["leaning"]
    with pytest.raises(BadBackendOutput):
        scored_answers(answers, image, Truth("plate"), classification_of(CLASSES))
