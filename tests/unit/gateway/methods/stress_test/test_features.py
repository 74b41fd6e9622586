"""Features and likelihoods of kept images; failing to record them never fails an item."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.perturber import LikelihoodsRequest, LikelihoodsResponse, TextLikelihood
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedResponse
from counterpose_core.errors import BackendUnavailable, BudgetSpent, InvalidRequest, LeaseLost, NotFound
from counterpose_core.images.clip_metrics import unit
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.screen import features as records
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.services.ports import Services
from fakes.log_listener import LogListener, listening
from fakes.ports import FakePerturber, FakeScorer, fake_services
from fakes.recorder import FakeRecorder
from fakes.runs import outcome, states, stress_test
from fakes.world import CAPTION, FakeWorld

CAPTIONED = CAPTION.format(label="sled")


async def run(world: FakeWorld, services: Services) -> tuple[list[PlannedItem], FakeRecorder]:
    return await stress_test(world, [world.source("sled", 0)], services)


def result_of(
    found: tuple[list[PlannedItem], FakeRecorder], kind: ItemKind, edit_type: str | None = None
) -> ItemResult:
    result = outcome(*found, kind, edit_type).result
    assert result is not None
    return result


async def test_a_kept_image_has_features_of_its_pixels_and_caption() -> None:
    world = FakeWorld()
    scorer = FakeScorer(world)
    made = result_of(await run(world, fake_services(world, scorer=scorer)), "edit", "domain")
    assert made.image_features is not None
    assert made.word_features is not None
    expected = unit(scorer.vector(made.image))
    assert made.image_features.numbers() == pytest.approx(expected, abs=1e-3)
    removed, added = made.word_features.removed, made.word_features.added
    assert removed is not None
    assert added is not None
    assert removed.numbers() == pytest.approx(unit(scorer.vector("photo")), abs=1e-3)
    assert added.numbers() == pytest.approx(unit(scorer.vector(" ".join(made.added[0].words))), abs=1e-3)
    assert made.source_features is None


async def test_the_reconstruction_replaces_the_original() -> None:
    world = FakeWorld()
    scorer = FakeScorer(world)
    source = world.source("sled", 0)
    found = await stress_test(world, [source], fake_services(world, scorer=scorer))
    control = result_of(found, "reconstruction")
    assert control.source_features is not None
    assert control.source_features.numbers() == pytest.approx(unit(scorer.vector(source.image)), abs=1e-3)
    assert control.word_features is None
    assert control.likelihood == TextLikelihood(nats=-len(CAPTIONED), tokens=len(CAPTIONED.split()))


async def test_an_edit_has_its_caption_likelihood_and_language_model() -> None:
    world = FakeWorld()
    made = result_of(await run(world, fake_services(world)), "edit", "subject")
    assert made.edited_caption is not None
    assert made.edited_caption != CAPTIONED
    assert made.likelihood is not None
    assert made.likelihood.nats == -len(made.edited_caption)
    assert made.models["language-model"] == "fake-llama@0"


class _NoImages(FakeScorer):
    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        raise BackendUnavailable("the scorer is away")


class _Mute(FakePerturber):
    async def likelihoods(self, request: LikelihoodsRequest) -> LikelihoodsResponse:
        raise NotFound("no such address")


@pytest.fixture
def listener() -> Iterator[LogListener]:
    with listening(records.__name__) as listener:
        yield listener


async def test_failed_feature_calls_leave_items_done_with_a_note(listener: LogListener) -> None:
    world = FakeWorld()
    found = await run(world, fake_services(world, scorer=_NoImages(world), perturber=_Mute()))
    assert states(found[1]) == {"done": 7}
    made = result_of(found, "edit", "subject")
    assert (made.image_features, made.likelihood) == (None, None)
    assert made.word_features is not None
    assert made.predictions
    assert "no such address" in listener.said
    assert "the scorer is away" in listener.said


class _OneUnread(FakePerturber):
    async def likelihoods(self, request: LikelihoodsRequest) -> LikelihoodsResponse:
        response = await super().likelihoods(request)
        refused = Outcome[TextLikelihood](problem=Problem.of(InvalidRequest("an unknown word")))
        return response.model_copy(update={"outcomes": [refused, *response.outcomes[1:]]})


async def test_only_the_text_without_an_answer_is_skipped() -> None:
    world = FakeWorld()
    found = await run(world, fake_services(world, perturber=_OneUnread()))
    assert result_of(found, "reconstruction").likelihood is None
    assert result_of(found, "edit", "subject").likelihood is not None


class _NotFinite(FakeScorer):
    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        response = await super().embed_images(request)
        broken = Outcome[Embedding](value=Embedding.model_construct(vector=[math.nan] * 4))
        return response.model_copy(update={"outcomes": [broken, *response.outcomes[1:]]})


async def test_non_finite_features_are_skipped() -> None:
    world = FakeWorld()
    control = result_of(await run(world, fake_services(world, scorer=_NotFinite(world))), "reconstruction")
    assert control.source_features is None
    assert control.image_features is not None
    assert np.isfinite(control.image_features.numbers()).all()


class _Lost(FakePerturber):
    async def likelihoods(self, request: LikelihoodsRequest) -> LikelihoodsResponse:
        raise LeaseLost("another worker has it")


async def test_a_lost_lease_is_raised() -> None:
    world = FakeWorld()
    with pytest.raises(LeaseLost):
        await run(world, fake_services(world, perturber=_Lost()))


class _Refused(FakePerturber):
    async def likelihoods(self, request: LikelihoodsRequest) -> LikelihoodsResponse:
        raise BudgetSpent("the run has stopped at its budget")


async def test_a_likelihood_without_room_in_the_budget_leaves_no_item_done() -> None:
    world = FakeWorld()
    _, record = await run(world, fake_services(world, perturber=_Refused()))
    assert {type(each.error) for each in record.outcomes.values() if each.error} == {BudgetSpent}
    assert states(record) == {"failed": 7}
