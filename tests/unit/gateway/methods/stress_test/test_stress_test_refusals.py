"""Subjective edits are refused, named images are excluded, and objectionable ones are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.perturber import CaptionEdit, Perturbations, PerturbItem
from counterpose_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedResponse
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.errors import BackendUnavailable, DatasetEmpty, InvalidRequest
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.objectionable import concept_prompts
from fakes.ports import FakePerturber, FakeScorer, fake_services
from fakes.recorder import FakeRecorder, lease_all, recorded_items, recorded_run
from fakes.runs import outcome, planned, stress_test
from fakes.world import FakeWorld


async def _processed(
    world: FakeWorld, services: Services, config: StressTestConfig, items: Sequence[PlannedItem]
) -> FakeRecorder:
    record = FakeRecorder()
    for group in lease_all(config, items):
        await process(group, services=services, record=record, store=world.store)
    return record


def _summary(
    config: StressTestConfig, items: Sequence[PlannedItem], record: FakeRecorder
) -> StressTestSummary:
    recorded = recorded_items(items, record)
    return summarize(recorded_run(config, recorded), recorded)


class _Swaps(FakePerturber):
    """Proposes for a type the same caption with other words, in the order given."""

    def __init__(self, **swaps: tuple[str, ...]) -> None:
        super().__init__()
        self.swaps: Mapping[str, tuple[str, ...]] = swaps

    def propose(self, item: PerturbItem) -> Perturbations:
        if item.perturbation_type not in self.swaps:
            return super().propose(item)
        texts = [item.caption.replace("red", word) for word in self.swaps[item.perturbation_type]]
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[]) for text in texts])


async def test_a_subjective_proposal_is_replaced_by_the_next() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_Swaps(adjective=("ugly", "blue")))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    result = outcome(items, record, "edit", "adjective").result
    assert result is not None
    assert result.edited_caption is not None
    assert "blue" in result.edited_caption


@pytest.mark.paper("LANCE-S4.2-subjective")
async def test_only_subjective_proposals_fail_the_slot_and_its_placebo() -> None:
    world = FakeWorld()
    perturber = _Swaps(adjective=("ugly", "lovelier"), placebo=("suspicious",))
    items, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, perturber=perturber)
    )
    stopped = outcome(items, record, "edit", "adjective")
    assert (stopped.reason, stopped.detail) == ("subjective", "2 proposals failed: 2 subjective")
    assert outcome(items, record, "placebo").reason == "subjective"


async def test_words_excluded_by_the_request_are_refused_and_counted() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_Swaps(adjective=("blue",)))
    config, items = await planned([world.source("sled", 0)], services, refused_words=["blue"])
    record = await _processed(world, services, config, items)
    assert outcome(items, record, "edit", "adjective").reason == "subjective"
    summary = _summary(config, items, record)
    assert summary.dropped == {"subjective": 1}
    share = summary.yields["subjective"]
    assert share.n == 5
    assert share.estimate == pytest.approx(0.8)


@pytest.mark.fault("B34")
async def test_edits_with_a_word_of_the_content_policy_are_filtered_and_counted() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_Swaps(adjective=("blue", "green"), object=("blue",)))
    config, items = await planned([world.source("sled", 0)], services)
    config = config.model_copy(update={"policy_words": ["Blue"]})
    record = await _processed(world, services, config, items)
    other = outcome(items, record, "edit", "adjective").result
    assert other is not None
    assert "green" in str(other.edited_caption)
    assert outcome(items, record, "edit", "object").reason == "policy"
    summary = _summary(config, items, record)
    assert summary.dropped == {"policy": 1}
    assert summary.yields["policy"].estimate == pytest.approx(0.8)


async def test_no_edit_is_made_of_a_caption_that_has_such_a_word() -> None:
    world = FakeWorld()
    services = fake_services(world)
    config, items = await planned([world.source("sled", 0)], services, lance_r_edits_per_image=1)
    config = config.model_copy(update={"policy_words": ["sled"]})
    record = await _processed(world, services, config, items)
    kinds = {item.kind for item in items if record.outcomes[f"item-{item.ordinal}"].reason == "policy"}
    assert {"edit", "placebo"} <= kinds
    assert "reconstruction" not in kinds


@pytest.mark.paper("LANCE-S4.2-ethics")
async def test_images_are_excluded_by_id_or_file_name_and_counted() -> None:
    world = FakeWorld()
    services, names = fake_services(world), ["sled-0", "boat/1.png", "boat-1"]
    config, items = await planned(world.sources(2), services, exclude=names)
    assert config.excluded == ["boat-1", "sled-0"]
    assert {item.item_group for item in items}.isdisjoint({"boat-1", "sled-0"})
    assert len({item.item_group for item in items}) == 6
    assert _summary(config, items, FakeRecorder()).excluded_sources == 2


async def test_an_ambiguous_file_name_needs_its_class() -> None:
    world = FakeWorld()
    sources = [source.model_copy(update={"filename": "1.png"}) for source in world.sources(1)]
    with pytest.raises(InvalidRequest, match="several classes have") as caught:
        await planned(sources, fake_services(world), exclude=["1.png"])
    assert caught.value.pointer == "/exclude"
    config, _ = await planned(sources, fake_services(world), exclude=["kite/1.png"])
    assert config.excluded == ["kite-0"]


async def test_the_limit_applies_after_exclusions() -> None:
    world = FakeWorld()
    _, items = await planned(world.sources(2), fake_services(world), exclude=["sled-0"], limit=4)
    assert {item.item_group for item in items} == {"plate-0", "sled-1", "boat-0", "kite-0"}


async def test_excluding_unknown_images_names_them() -> None:
    world = FakeWorld()
    with pytest.raises(InvalidRequest, match=r"'no\.png', 'sled-7'") as caught:
        await planned(world.sources(1), fake_services(world), exclude=["sled-0", "no.png", "sled-7"])
    assert caught.value.pointer == "/exclude"


async def test_excluding_every_image_is_refused() -> None:
    world = FakeWorld()
    with pytest.raises(DatasetEmpty, match="except the 1 excluded"):
        await planned([world.source("sled", 0)], fake_services(world), exclude=["sled-0"])


class _SeesNudity(FakeScorer):
    """Takes every image that is no photo for the first concept."""

    def vector(self, text: str) -> list[float]:
        shown = self.world.shown.get(text)
        return super().vector(concept_prompts()[0] if shown and "photo" not in shown.caption else text)


@pytest.mark.paper("LANCE-S4.2-ethics")
async def test_an_objectionable_generated_image_is_filtered_and_counted() -> None:
    world = FakeWorld()
    scorer = _SeesNudity(world)
    services = fake_services(world, scorer=scorer)
    config, items = await planned([world.source("sled", number) for number in range(6)], services)
    config = config.model_copy(update={"objectionable": 0.9})
    record = await _processed(world, services, config, items)
    stopped = {name for name, recorded in record.outcomes.items() if recorded.reason == "objectionable"}
    assert stopped == {f"item-{item.ordinal}" for item in items if item.edit_type == "domain"}
    detail = record.outcomes[min(stopped)].detail
    assert detail == "looks like nudity: similarity 1.00, the limit is 0.9"
    summary = _summary(config, items, record)
    assert summary.dropped == {"objectionable": 6}
    assert summary.yields["objectionable"].n == 30


async def test_without_a_threshold_images_are_not_screened_and_no_share_is_reported() -> None:
    world = FakeWorld()
    scorer = _SeesNudity(world)
    services = fake_services(world, scorer=scorer)
    config, items = await planned([world.source("sled", 0)], services)
    record = await _processed(world, services, config, items)
    assert config.objectionable is None
    assert {recorded.state for recorded in record.outcomes.values()} == {"done"}
    assert "objectionable" not in _summary(config, items, record).yields


class _BlindToImages(FakeScorer):
    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        raise BackendUnavailable("no images today")


class _BlindToOne(FakeScorer):
    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        answer = await super().embed_images(request)
        failed = Outcome[Embedding](problem=Problem.of(BackendUnavailable("not this one")))
        return answer.model_copy(update={"outcomes": [failed, *answer.outcomes[1:]]})


class _Flat(FakeScorer):
    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        answer = await super().embed_images(request)
        return EmbedResponse.model_validate(
            {**answer.model_dump(), "outcomes": [{"value": {"vector": [1.0, 0.0]}} for _ in request.images]}
        )


@pytest.mark.parametrize(
    ("blind", "code", "lost"),
    [(_BlindToImages, "backend-unavailable", 7), (_BlindToOne, "backend-unavailable", 1),
     (_Flat, "bad-backend-output", 7)],
)  # fmt: skip
async def test_an_image_that_could_not_be_screened_is_dropped(
    blind: type[FakeScorer], code: str, lost: int
) -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=blind(world))
    config, items = await planned([world.source("sled", 0)], services)
    record = await _processed(world, services, config.model_copy(update={"objectionable": 0.9}), items)
    failed = [recorded.error.code for recorded in record.outcomes.values() if recorded.error is not None]
    assert failed == [code] * lost
