"""Services that return invalid answers: the workflow detects them and they never become a figure."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable

import pytest

from counterpose_core.contract.base import Outcome
from counterpose_core.contract.captioner import Caption, CaptionRequest, CaptionResponse
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.editor import (
    EditedImage,
    EditRequest,
    EditResponse,
    EditVariant,
    Reconstruction,
    ReconstructRequest,
    ReconstructResponse,
)
from counterpose_core.contract.perturber import CaptionEdit, Perturbations, PerturbItem
from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_gateway.services.ports import Services
from fakes.ports import (
    FakeCaptioner,
    FakeClassifiers,
    FakeEditor,
    FakePerturber,
    FakeScorer,
    fake_services,
)
from fakes.runs import stress_test
from fakes.store import blank_image
from fakes.world import FakeWorld


class _Silent(FakeCaptioner):
    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        response = await super().caption(request)
        empty = Outcome[Caption](value=Caption(text=" ", log_likelihood=0.0, tokens=0))
        return response.model_copy(update={"outcomes": [empty]})


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
        nothing = [EditVariant(strength=value, image="0" * 64) for value in request.values]
        for variant in nothing:
            self.world.shown[variant.image] = self.world.shown[request.items[0].image]
        outcomes = [Outcome[EditedImage](value=EditedImage(variants=nothing)) for _ in request.items]
        return response.model_copy(update={"outcomes": outcomes})


class _Paints(FakeEditor):
    """Answers the same stored bytes for every image."""

    content = blank_image()

    async def edit(self, request: EditRequest) -> EditResponse:
        response = await super().edit(request)
        image = self.world.store.put(self.content)
        self.world.shown[image] = self.world.shown[request.items[0].image]
        variants = [EditVariant(strength=value, image=image) for value in request.values]
        outcomes = [Outcome[EditedImage](value=EditedImage(variants=variants)) for _ in request.items]
        return response.model_copy(update={"outcomes": outcomes})


class _PaintsGif(_Paints):
    content = b"GIF89a of a dog"


class _PaintsHuge(_Paints):
    content = b"FLRAW1" + struct.pack("<III", 60_000, 60_000, 3)


class _PaintsNoise(_Paints):
    content = b"no image"


class _ReconstructsBlack(FakeEditor):
    async def reconstruct(self, request: ReconstructRequest) -> ReconstructResponse:
        response = await super().reconstruct(request)
        black = Reconstruction(image=self.world.store.put(blank_image()), psnr_db=99.0)
        return response.model_copy(update={"outcomes": [Outcome[Reconstruction](value=black)]})


class _UnevenVectors(FakeScorer):
    def vector(self, text: str) -> list[float]:
        return super().vector(text)[: 1 + len(text)]


class _ZeroVectors(FakeScorer):
    def vector(self, text: str) -> list[float]:
        return [0.0] * 256


class _EmptyVectors(FakeScorer):
    def vector(self, text: str) -> list[float]:
        return []


class _WritesAnEscape(FakePerturber):
    def propose(self, item: PerturbItem) -> Perturbations:
        edit = CaptionEdit(edited_caption=f"{item.caption} \x1b[2J", removed=[], added=[])
        return Perturbations(edits=[edit])


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
    "a sweep cut short": lambda world: (fake_services(world, editor=_ShortSweep(world)), 6),
    "an image never stored": lambda world: (fake_services(world, editor=_NamesNothing(world)), 6),
    "a black image": lambda world: (fake_services(world, editor=_Paints(world)), 6),
    "an animation for an image": lambda world: (fake_services(world, editor=_PaintsGif(world)), 6),
    "an image too large to look at": lambda world: (fake_services(world, editor=_PaintsHuge(world)), 6),
    "bytes that are no image": lambda world: (fake_services(world, editor=_PaintsNoise(world)), 6),
    "a black reconstruction": lambda world: (fake_services(world, editor=_ReconstructsBlack(world)), 1),
    "embeddings of different lengths": lambda world: (fake_services(world, scorer=_UnevenVectors(world)), 5),
    "embeddings of nothing but zeros": lambda world: (fake_services(world, scorer=_ZeroVectors(world)), 5),
    "embeddings without numbers": lambda world: (fake_services(world, scorer=_EmptyVectors(world)), 5),
    "a proposal with a terminal's escape": lambda world: (
        fake_services(world, perturber=_WritesAnEscape()), 6,
    ),
    "cosines of 17": lambda world: (fake_services(world, scorer=_NoCosines(world)), 6),
    "NaN for a score": lambda world: (fake_services(world, scorer=_NotANumber(world)), 6),
    "one probability for four classes": lambda world: (
        fake_services(world, classifiers=_TooFewProbabilities(world)), 7,
    ),
    "probabilities of 3.6 together": lambda world: (
        fake_services(world, classifiers=_TooMuchProbability(world)), 7,
    ),
}  # fmt: skip


@pytest.mark.fault("F12")
@pytest.mark.parametrize("lie", LIES)
async def test_an_invalid_service_answer_fails_items_and_yields_no_figure(lie: str) -> None:
    world = FakeWorld()
    services, expected = LIES[lie](world)
    _, record = await stress_test(world, [world.source("sled", 0)], services)
    codes = Counter(found.error.code for found in record.outcomes.values() if found.error)
    assert codes == {"bad-backend-output": expected}
    assert len(record.outcomes) == 7
