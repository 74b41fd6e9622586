"""Services that answer nonsense: the workflow must notice, and never let it become a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from fakes.ports import (
    FakeCaptioner,
    FakeClassifiers,
    FakeEditor,
    FakeScorer,
    fake_services,
)
from fakes.runs import stress_test
from fakes.store import blank_picture
from fakes.world import FakeWorld
from faultline_core.contract.base import Outcome
from faultline_core.contract.captioner import Caption, CaptionRequest, CaptionResponse
from faultline_core.contract.classifiers import ClassifyRequest, Prediction
from faultline_core.contract.editor import EditedImage, EditRequest, EditResponse, EditVariant
from faultline_core.contract.scorer import EditScores, ScoreItem
from faultline_gateway.ports import Services


class _Silent(FakeCaptioner):
    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        response = await super().caption(request)
        empty = Outcome[Caption](value=Caption(text=" ", log_likelihood=0.0, tokens=0))
        return response.model_copy(update={"outcomes": [empty]})


class _CountsWrong(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        response = await super().edit(request)
        return response.model_copy(update={"outcomes": response.outcomes[:-1]})


class _ShortSweep(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        response = await super().edit(request)
        return response.model_copy(update={"outcomes": [_cut(outcome) for outcome in response.outcomes]})


def _cut(outcome: Outcome[EditedImage]) -> Outcome[EditedImage]:
    value = outcome.unwrap()
    return Outcome(value=value.model_copy(update={"variants": value.variants[:-1]}))


class _NamesNothing(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        response = await super().edit(request)
        nothing = [EditVariant(self_replace=value, image="0" * 64) for value in request.preset.self_replace]
        for variant in nothing:
            self.world.shown[variant.image] = self.world.shown[request.items[0].image]
        outcomes = [Outcome[EditedImage](value=EditedImage(variants=nothing)) for _ in request.items]
        return response.model_copy(update={"outcomes": outcomes})


class _PaintsBlack(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        response = await super().edit(request)
        black = self.world.store.put(blank_picture())
        self.world.shown[black] = self.world.shown[request.items[0].image]
        variants = [EditVariant(self_replace=value, image=black) for value in request.preset.self_replace]
        outcomes = [Outcome[EditedImage](value=EditedImage(variants=variants)) for _ in request.items]
        return response.model_copy(update={"outcomes": outcomes})


class _NoCosines(FakeScorer):
    def measure(self, item: ScoreItem) -> EditScores:
        return super().measure(item).model_copy(update={"direction": 17.0})


class _NotANumber(FakeScorer):
    def measure(self, item: ScoreItem) -> EditScores:
        return EditScores.model_construct(
            **super().measure(item).model_dump() | {"image_text": 0.0, "direction": float("nan")}
        )


class _TooFewProbabilities(FakeClassifiers):
    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        return Prediction(probabilities=[1.0], top=[0])


class _TooMuchProbability(FakeClassifiers):
    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        return Prediction(probabilities=[0.9] * len(request.classes), top=[0])


LIES: dict[str, Callable[[FakeWorld], tuple[Services, int]]] = {
    "an empty caption": lambda world: (fake_services(world, captioner=_Silent(world)), 7),
    "one outcome too few": lambda world: (fake_services(world, editor=_CountsWrong(world)), 6),
    "a sweep cut short": lambda world: (fake_services(world, editor=_ShortSweep(world)), 6),
    "a picture never stored": lambda world: (fake_services(world, editor=_NamesNothing(world)), 6),
    "a black picture": lambda world: (fake_services(world, editor=_PaintsBlack(world)), 6),
    "cosines of 17": lambda world: (fake_services(world, scorer=_NoCosines(world)), 6),
    "NaN for a score": lambda world: (fake_services(world, scorer=_NotANumber(world)), 6),
    "one probability for four classes": lambda world: (
        fake_services(world, classifiers=_TooFewProbabilities(world)), 7,
    ),
    "probabilities of 3.6 together": lambda world: (
        fake_services(world, classifiers=_TooMuchProbability(world)), 7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
async def test_a_lying_service_fails_items_and_never_becomes_a_number(lie: str) -> None:
    world = FakeWorld()
    services, expected = LIES[lie](world)
    _, record = await stress_test(world, [world.source("sled", 0)], services)
    codes = Counter(found.error.code for found in record.outcomes.values() if found.error)
    assert codes == {"bad-backend-output": expected}
    assert len(record.outcomes) == 7
