"""Subjective edits are refused, pictures are left out by name, objectionable ones are not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fakes.ports import FakePerturber, FakeScorer, fake_services
from fakes.recorder import FakeRecorder, lease_all, recorded_items, recorded_run
from fakes.runs import outcome, planned, stress_test
from fakes.world import FakeWorld
from faultline_core.contract.base import Outcome, Problem
from faultline_core.contract.perturber import CaptionEdit, Perturbations, PerturbItem
from faultline_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedResponse
from faultline_core.contract.stress_tests import StressTestConfig, StressTestSummary
from faultline_core.errors import BackendUnavailable, DatasetEmpty, InvalidRequest
from faultline_core.objectionable import prompts
from faultline_gateway.ports import Services
from faultline_gateway.work_items import PlannedItem
from faultline_gateway.workflows.stress_test import process, summarize


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


async def test_a_subjective_edit_gives_way_to_the_next_proposal() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_Swaps(adjective=("ugly", "blue")))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    result = outcome(items, record, "edit", "adjective").result
    assert result is not None
    assert result.edited_caption is not None
    assert "blue" in result.edited_caption


async def test_a_slot_with_subjective_proposals_only_says_so_and_so_does_a_placebo() -> None:
    world = FakeWorld()
    perturber = _Swaps(adjective=("ugly", "lovelier"), placebo=("suspicious",))
    items, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, perturber=perturber)
    )
    stopped = outcome(items, record, "edit", "adjective")
    assert (stopped.reason, stopped.detail) == ("subjective", "of 2 proposals: 2 subjective")
    assert outcome(items, record, "placebo").reason == "subjective"


async def test_the_requests_own_words_are_refused_too_and_counted() -> None:
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


async def test_pictures_are_left_out_by_id_or_by_file_name_and_counted() -> None:
    world = FakeWorld()
    services, names = fake_services(world), ["sled-0", "boat/1.png", "boat-1"]
    config, items = await planned(world.sources(2), services, exclude=names)
    assert config.excluded == ["boat-1", "sled-0"]
    assert {item.source_id for item in items}.isdisjoint({"boat-1", "sled-0"})
    assert len({item.source_id for item in items}) == 6
    assert _summary(config, items, FakeRecorder()).excluded_sources == 2


async def test_a_file_name_that_several_classes_have_takes_its_class_before_it() -> None:
    world = FakeWorld()
    sources = [source.model_copy(update={"filename": "1.png"}) for source in world.sources(1)]
    with pytest.raises(InvalidRequest, match="several classes have") as caught:
        await planned(sources, fake_services(world), exclude=["1.png"])
    assert caught.value.pointer == "/exclude"
    config, _ = await planned(sources, fake_services(world), exclude=["kite/1.png"])
    assert config.excluded == ["kite-0"]


async def test_a_limit_takes_from_what_is_left() -> None:
    world = FakeWorld()
    _, items = await planned(world.sources(2), fake_services(world), exclude=["sled-0"], limit=4)
    assert {item.source_id for item in items} == {"plate-0", "sled-1", "boat-0", "kite-0"}


async def test_pictures_that_do_not_exist_are_named() -> None:
    world = FakeWorld()
    with pytest.raises(InvalidRequest, match=r"'no\.png', 'sled-7'") as caught:
        await planned(world.sources(1), fake_services(world), exclude=["sled-0", "no.png", "sled-7"])
    assert caught.value.pointer == "/exclude"


async def test_leaving_out_every_picture_is_refused() -> None:
    world = FakeWorld()
    with pytest.raises(DatasetEmpty, match="but the 1 that are excluded"):
        await planned([world.source("sled", 0)], fake_services(world), exclude=["sled-0"])


class _SeesNudity(FakeScorer):
    """Takes every picture that is no photo for the first concept."""

    def vector(self, text: str) -> list[float]:
        shown = self.world.shown.get(text)
        return super().vector(prompts()[0] if shown and "photo" not in shown.caption else text)


async def test_a_generated_picture_that_looks_objectionable_is_filtered_and_counted() -> None:
    world = FakeWorld()
    scorer = _SeesNudity(world)
    services = fake_services(world, scorer=scorer)
    config, items = await planned([world.source("sled", number) for number in range(6)], services)
    config = config.model_copy(update={"objectionable": 0.9})
    record = await _processed(world, services, config, items)
    stopped = {name for name, recorded in record.outcomes.items() if recorded.reason == "objectionable"}
    assert stopped == {f"item-{item.ordinal}" for item in items if item.edit_type == "domain"}
    detail = record.outcomes[min(stopped)].detail
    assert detail == "looks like nudity: 1.00, and 0.9 is too much"
    summary = _summary(config, items, record)
    assert summary.dropped == {"objectionable": 6}
    assert summary.yields["objectionable"].n == 30


async def test_without_a_threshold_nobody_looks_and_no_share_is_claimed() -> None:
    world = FakeWorld()
    scorer = _SeesNudity(world)
    services = fake_services(world, scorer=scorer)
    config, items = await planned([world.source("sled", 0)], services)
    record = await _processed(world, services, config, items)
    assert config.objectionable is None
    assert {recorded.state for recorded in record.outcomes.values()} == {"done"}
    assert "objectionable" not in _summary(config, items, record).yields


class _BlindToPictures(FakeScorer):
    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        raise BackendUnavailable("no pictures today")


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
    [(_BlindToPictures, "backend-unavailable", 7), (_BlindToOne, "backend-unavailable", 1),
     (_Flat, "bad-backend-output", 7)],
)  # fmt: skip
async def test_a_picture_that_nobody_could_look_at_is_not_kept(
    blind: type[FakeScorer], code: str, lost: int
) -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=blind(world))
    config, items = await planned([world.source("sled", 0)], services)
    record = await _processed(world, services, config.model_copy(update={"objectionable": 0.9}), items)
    failed = [recorded.error.code for recorded in record.outcomes.values() if recorded.error is not None]
    assert failed == [code] * lost
