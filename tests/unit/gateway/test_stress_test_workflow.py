"""The stress-test workflow over fakes of the five ports."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from fakes.ports import (
    FakeCaptioner,
    FakeClassifiers,
    FakeEditor,
    FakePerturber,
    FakeScorer,
    fake_services,
)
from fakes.recorder import FakeRecorder, lease_all
from fakes.runs import outcome, planned, states, stress_test
from fakes.world import FakeWorld
from faultline_core.contract.base import Outcome, Problem
from faultline_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from faultline_core.contract.editor import EditedImage, EditRequest, EditResponse
from faultline_core.contract.perturber import (
    CaptionEdit,
    Perturbations,
    PerturbItem,
    PerturbRequest,
    PerturbResponse,
)
from faultline_core.contract.scorer import EditScores, EmbedResponse, EmbedTextsRequest, ScoreItem
from faultline_core.errors import BackendUnavailable, Cancelled, LeaseLost, ResourceExhausted
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.stress_test import process


async def test_every_planned_item_ends_in_one_outcome_and_good_services_make_them_all() -> None:
    world = FakeWorld()
    items, record = await stress_test(world, world.sources(2), fake_services(world))
    assert len(record.outcomes) == len(items) == 8 * 7
    assert states(record) == {"done": 56}


async def test_a_counterfactual_carries_words_scores_provenance_and_paired_predictions() -> None:
    world = FakeWorld()
    items, record = await stress_test(world, world.sources(1), fake_services(world))
    result = outcome(items, record, "edit", "adjective").result
    assert result is not None
    assert [span.words for span in result.removed] == [["red"]]
    assert [span.start for span in result.added] == [4]
    assert result.scores is not None
    assert result.predictions.keys() == result.original_predictions.keys() == {"steady", "leaning"}
    assert result.original_predictions["steady"].rank_true == 1
    assert result.models["editor"] == "fake-editor@0"
    assert result.preset is not None
    assert world.shown[result.image].self_replace == result.self_replace == 0.4


async def test_released_selection_takes_the_most_conservative_passing_value() -> None:
    world = FakeWorld()
    items, record = await stress_test(world, world.sources(1), fake_services(world), selection="released")
    result = outcome(items, record, "edit", "object").result
    assert result is not None
    assert result.self_replace == 0.8


async def test_one_source_takes_one_call_of_each_service() -> None:
    world = FakeWorld()
    editor, scorer, classifiers = FakeEditor(world), FakeScorer(world), FakeClassifiers(world)
    services = fake_services(world, editor=editor, scorer=scorer, classifiers=classifiers)
    await stress_test(world, [world.source("sled", 0)], services)
    assert editor.calls == {"reconstruct": 1, "edit": 1}
    assert scorer.calls == {"embed_texts": 1, "score": 1}
    assert classifiers.calls == {"steady": 1, "leaning": 1}


async def test_long_sweeps_are_spread_over_several_calls() -> None:
    world = FakeWorld()
    editor = FakeEditor(world)
    _, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, editor=editor), preset="lance"
    )
    assert editor.calls == {"reconstruct": 1, "edit": 3}
    assert states(record) == {"done": 7}


async def test_costs_of_a_source_add_up_over_its_items() -> None:
    world = FakeWorld()
    _, record = await stress_test(world, [world.source("sled", 0)], fake_services(world))
    results = [recorded.result for recorded in record.outcomes.values() if recorded.result]
    assert sum(result.cost.unet_evaluations for result in results) == 20 + 6 * 60 + 20
    assert sum(result.cost.unet_calls for result in results) == 20 + 60
    assert sum(result.cost.clip_passes for result in results) == 6 * 3
    assert set().union(*(result.service_seconds for result in results)) == {
        "captioner", "perturber", "editor", "scorer", "classifiers",
    }  # fmt: skip


async def test_a_users_caption_stands_in_for_the_captioner() -> None:
    world = FakeWorld()
    captioner = FakeCaptioner(world)
    source = world.source("sled", 0, caption="a photo of a red sled on the grass with a dog")
    items, record = await stress_test(world, [source], fake_services(world, captioner=captioner))
    assert captioner.calls["caption"] == 0
    result = outcome(items, record, "reconstruction").result
    assert result is not None
    assert result.caption == source.caption


class _LabelSwapper(FakePerturber):
    def propose(self, item: PerturbItem) -> Perturbations:
        if item.perturbation_type != "subject":
            return super().propose(item)
        texts = [item.caption.replace("sled", "boat")] * (item.n - 1) + [item.caption.replace("red", "tiny")]
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[]) for text in texts])


async def test_a_slot_skips_proposals_that_touch_the_label() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_LabelSwapper())
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    result = outcome(items, record, "edit", "subject").result
    assert result is not None
    assert result.edited_caption == "a photo of a tiny sled on the grass next to a dog"


class _OnlyLabelSwaps(FakePerturber):
    def propose(self, item: PerturbItem) -> Perturbations:
        if item.perturbation_type == "object":
            return Perturbations(edits=[])
        if item.perturbation_type != "subject":
            return super().propose(item)
        text = item.caption.replace("sled", "boat")
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[])])


async def test_a_slot_without_usable_proposal_says_why() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_OnlyLabelSwaps())
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    assert outcome(items, record, "edit", "subject").reason == "label-in-edit"
    assert outcome(items, record, "edit", "object").reason == "no-edit"
    assert states(record) == {"done": 5, "label-in-edit": 1, "no-edit": 1}


class _NotesSeeds(FakePerturber):
    def __init__(self) -> None:
        super().__init__()
        self.seeds: list[int] = []

    def propose(self, item: PerturbItem) -> Perturbations:
        self.seeds.append(item.seed)
        return super().propose(item)


async def test_every_slot_draws_from_a_seed_of_its_own_which_the_runs_seed_decides() -> None:
    world = FakeWorld()
    sources = [world.source("sled", 0), world.source("sled", 1)]
    noted: list[list[int]] = []
    for seed in (3, 3, 4):
        perturber = _NotesSeeds()
        services = fake_services(world, perturber=perturber)
        await stress_test(world, sources, services, seed=seed, max_edits_per_image=10)
        noted.append(perturber.seeds)
    assert len(set(noted[0])) == len(noted[0]) == 22
    assert noted[0] == noted[1]
    assert not set(noted[0]) & set(noted[2])


class _SynonymScorer(FakeScorer):
    def vector(self, text: str) -> list[float]:
        names = {"snow": "grass", "sand": "grass", "fog": "grass", "sleigh": "sled"}
        return super().vector(next((old for new, old in names.items() if new in text), text.split()[-1]))


async def test_words_that_mean_the_same_are_no_edit() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_SynonymScorer(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    assert outcome(items, record, "edit", "background").reason == "edit-too-similar"


class _BringsASleigh(FakePerturber):
    def propose(self, item: PerturbItem) -> Perturbations:
        text = (
            item.caption.replace("a dog", "a sleigh") if item.perturbation_type == "object" else item.caption
        )
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[])])


async def test_added_words_near_the_class_are_dropped_and_an_unchanged_caption_is_no_edit() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_BringsASleigh(), scorer=_SynonymScorer(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    assert outcome(items, record, "edit", "object").reason == "label-in-edit"
    assert outcome(items, record, "edit", "domain").reason == "no-edit"
    assert outcome(items, record, "placebo").state == "done"


async def test_slots_of_a_type_get_distinct_edits_and_the_rest_is_a_duplicate() -> None:
    world = FakeWorld()
    _, record = await stress_test(
        world,
        [world.source("sled", 0)],
        fake_services(world),
        edit_types=["adjective"],
        max_edits_per_image=4,
    )
    results = [recorded.result for recorded in record.outcomes.values() if recorded.result is not None]
    colours = [result.added[0].words[0] for result in results if result.added and result.added[0].start == 4]
    assert sorted(colours) == ["blue", "green", "yellow"]
    assert states(record) == {"done": 5, "duplicate-edit": 1}


async def test_a_slot_tried_again_alone_gets_the_same_edit() -> None:
    world = FakeWorld()
    services = fake_services(world)
    config, items = await planned(
        [world.source("sled", 0)], services, edit_types=["adjective"], max_edits_per_image=3
    )
    [group] = lease_all(config, items)
    together, alone = FakeRecorder(), FakeRecorder()
    await process(group, services=services, record=together, store=world.store)
    last = [item for item in group.items if item.slot == 2]
    await process(replace(group, items=last), services=services, record=alone, store=world.store)
    assert [*alone.outcomes] == [last[0].id]
    first, second = together.outcomes[last[0].id].result, alone.outcomes[last[0].id].result
    assert first is not None
    assert second is not None
    assert first.edited_caption == second.edited_caption


async def test_a_reconstruction_tried_again_alone_asks_for_no_edits() -> None:
    world = FakeWorld()
    perturber, editor, record = FakePerturber(), FakeEditor(world), FakeRecorder()
    services = fake_services(world, perturber=perturber, editor=editor)
    config, items = await planned([world.source("sled", 0)], services)
    [group] = lease_all(config, items)
    control = [item for item in group.items if item.kind == "reconstruction"]
    await process(replace(group, items=control), services=services, record=record, store=world.store)
    assert states(record) == {"done": 1}
    assert perturber.calls == {}
    assert editor.calls == {"reconstruct": 1}


class _PickyScorer(FakeScorer):
    failing: dict[str, float] = {"snow": -0.5, "sand": -0.5, "fog": -0.5}

    def measure(self, item: ScoreItem) -> EditScores:
        scores = super().measure(item)
        direction = next((value for word, value in self.failing.items() if word in item.edited_caption), None)
        return scores if direction is None else scores.model_copy(update={"direction": direction})


async def test_an_edit_of_which_no_variant_passes_is_filtered_with_its_scores() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_PickyScorer(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    dropped = outcome(items, record, "edit", "background")
    assert dropped.reason == "gate-direction"
    assert dropped.result is not None
    assert dropped.result.scores is not None
    assert dropped.result.predictions == {}
    assert outcome(items, record, "placebo").state == "done"


class _NothingPasses(FakeScorer):
    def measure(self, item: ScoreItem) -> EditScores:
        return super().measure(item).model_copy(update={"image_image": 0.1})


async def test_a_run_without_surviving_edit_still_has_its_reconstruction() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_NothingPasses(world))
    _, record = await stress_test(world, [world.source("sled", 0)], services)
    assert states(record) == {"done": 1, "gate-image-image": 6}


async def test_no_classifier_is_asked_about_nothing() -> None:
    world = FakeWorld()
    classifiers, record = FakeClassifiers(world), FakeRecorder()
    services = fake_services(world, scorer=_NothingPasses(world), classifiers=classifiers)
    config, items = await planned([world.source("sled", 0)], services)
    [group] = lease_all(config, items)
    edits = [item for item in group.items if item.kind == "edit"]
    await process(replace(group, items=edits), services=services, record=record, store=world.store)
    assert states(record) == {"gate-image-image": 5}
    assert classifiers.calls == {}


def problem(error: Exception) -> Problem:
    assert isinstance(error, ResourceExhausted | BackendUnavailable)
    return Problem.of(error)


class _OneEditFails(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        response = await super().edit(request)
        broken = Outcome[EditedImage](problem=problem(ResourceExhausted("out of memory")))
        return response.model_copy(update={"outcomes": [broken, *response.outcomes[1:]]})


async def test_one_bad_edit_fails_alone() -> None:
    world = FakeWorld()
    services = fake_services(world, editor=_OneEditFails(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    failed = outcome(items, record, "edit", "subject")
    assert isinstance(failed.error, ResourceExhausted)
    assert states(record) == {"done": 6, "failed": 1}


class _EditorDown(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        raise BackendUnavailable("the editor is down")


async def test_a_call_that_fails_whole_fails_only_the_items_that_needed_it() -> None:
    world = FakeWorld()
    services = fake_services(world, editor=_EditorDown(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    assert outcome(items, record, "reconstruction").state == "done"
    assert states(record) == {"done": 1, "failed": 6}
    assert all(found.error.retryable for found in record.outcomes.values() if found.error)


class _EditorCancels(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        raise Cancelled("the replica is stopping")


async def test_a_service_that_cancels_its_call_leaves_items_to_be_tried_again() -> None:
    world = FakeWorld()
    services = fake_services(world, editor=_EditorCancels(world))
    _, record = await stress_test(world, [world.source("sled", 0)], services)
    failed = [found.error for found in record.outcomes.values() if found.error is not None]
    assert [(error.code, error.retryable) for error in failed] == [("backend-unavailable", True)] * 6


class _PerturberDown(FakePerturber):
    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        raise BackendUnavailable("the perturber is down")


async def test_without_perturber_the_reconstruction_goes_on() -> None:
    world = FakeWorld()
    _, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, perturber=_PerturberDown())
    )
    assert states(record) == {"done": 1, "failed": 6}


class _SentencesDown(FakeScorer):
    async def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        raise BackendUnavailable("the scorer is down")


async def test_without_sentence_encoder_no_edit_is_let_through_unfiltered() -> None:
    world = FakeWorld()
    _, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, scorer=_SentencesDown(world))
    )
    assert states(record) == {"done": 2, "failed": 5}


class _OneClassifierDown(FakeClassifiers):
    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        if request.classifier == "leaning":
            raise BackendUnavailable("the classifier is down")
        return await super().classify(request)


async def test_no_item_is_done_with_half_its_predictions() -> None:
    world = FakeWorld()
    services = fake_services(world, classifiers=_OneClassifierDown(world))
    _, record = await stress_test(world, [world.source("sled", 0)], services)
    assert states(record) == {"failed": 7}


class _Buggy(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        raise ZeroDivisionError


async def test_a_defect_of_ours_costs_one_source_only() -> None:
    world = FakeWorld()
    _, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, editor=_Buggy(world))
    )
    assert Counter(found.error.code for found in record.outcomes.values() if found.error) == {
        "internal-error": 7
    }


@pytest.mark.parametrize("polls", [0, 1, 2, 3, 5])
async def test_cancellation_stops_between_calls_and_leaves_open_items_to_the_ledger(polls: int) -> None:
    world = FakeWorld()
    record = FakeRecorder(cancel_after=polls)
    await stress_test(world, [world.source("sled", 0)], fake_services(world), record)
    assert record.polls == polls + 1
    assert all(found.state != "failed" for found in record.outcomes.values())
    assert len(record.outcomes) < 7


class _LosesTheLease(FakeRecorder):
    async def failed(self, item: LeasedItem, error: Exception) -> None:
        raise AssertionError("a lost lease is no failure of the item")

    async def filtered(self, item: LeasedItem, reason: str, detail: str = "", result: object = None) -> None:
        raise LeaseLost("another worker owns it")


async def test_a_lost_lease_ends_the_attempt_without_another_word() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_NothingPasses(world))
    with pytest.raises(LeaseLost):
        await stress_test(world, [world.source("sled", 0)], services, _LosesTheLease())
