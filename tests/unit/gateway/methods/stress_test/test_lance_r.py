"""LANCE-R: which words it replaces, which images it keeps, and that nothing else depends on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpose_core.contract.base import ModelIdentity, Outcome, Problem
from counterpose_core.contract.perturber import PerturbRequest, PerturbResponse
from counterpose_core.contract.scorer import (
    EditScores,
    FilledMask,
    FillMaskItem,
    FillMaskRequest,
    FillMaskResponse,
    ScoreItem,
)
from counterpose_core.errors import BackendUnavailable, CounterposeError, InvalidRequest
from counterpose_core.text.stop_words import STOP_WORDS
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.methods.stress_test.screen.lance_r import replaceable
from counterpose_gateway.records.items import PlannedItem
from fakes.ports import FakePerturber, FakeScorer, fake_services
from fakes.recorder import FakeRecorder, Recorded, lease_all
from fakes.runs import outcome, planned, states, stress_test
from fakes.world import FakeWorld

WORDS = ("harbour", "violet", "kitten", "ladder", "forest")


class Filler(FakeScorer):
    """Proposes the words above, beginning where the seed says, and remembers what it was asked."""

    words: tuple[str, ...] = WORDS

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.asked: list[FillMaskItem] = []

    async def fill_mask(self, request: FillMaskRequest) -> FillMaskResponse:
        self.calls["fill_mask"] += 1
        self.asked += request.items
        outcomes = [self.fill(item) for item in request.items]
        return FillMaskResponse(outcomes=outcomes, model=ModelIdentity(id="fake-masked-lm", revision="0"))

    def fill(self, item: FillMaskItem) -> Outcome[FilledMask]:
        start = item.seed % len(self.words) if self.words else 0
        words = [*self.words[start:], *self.words[:start]][: item.n]
        return Outcome(value=FilledMask(words=words, probabilities=[0.1] * len(words)))


def baseline(items: list[PlannedItem], record: FakeRecorder) -> list[Recorded]:
    """The outcomes of LANCE-R's slots, in order."""
    return [record.outcomes[f"item-{item.ordinal}"] for item in items if item.kind == "lance-r"]


def edited(recorded: list[Recorded]) -> list[str]:
    return [each.result.edited_caption or "" for each in recorded if each.result is not None]


def refused(error: CounterposeError) -> Outcome[FilledMask]:
    return Outcome(problem=Problem.of(error))


@pytest.mark.parametrize(
    ("caption", "label", "expected"),
    [
        ("a photo of a red sled", "sled", ["photo", "red"]),
        ("Two sleds, 3.5 m apart.", "sled", ["Two", "m", "apart"]),
        ("a school bus", "double-decker bus", ["school"]),
        ("a close-up of a red/blue kite's tail", "kite", ["close-up", "kite's", "tail"]),
        ("it is on the", "sled", []),
        ("", "sled", []),
    ],
)
def test_only_content_words_outside_the_class_name_are_replaced(
    caption: str, label: str, expected: list[str]
) -> None:
    found = replaceable(caption, label)
    assert [place.word for place in found] == expected
    assert [caption[place.start : place.end] for place in found] == expected
    parts = caption.split()
    assert all(place.word in parts[place.position] for place in found)


@pytest.mark.paper("LANCE-B-lance-r")
async def test_one_word_is_replaced_and_the_image_is_processed_like_an_edit() -> None:
    world = FakeWorld()
    scorer = Filler(world)
    source = world.source("sled", 0, caption="A red,  shiny sled; on grass.")
    items, record = await stress_test(
        world, [source], fake_services(world, scorer=scorer), lance_r_edits_per_image=1
    )
    [made] = baseline(items, record)
    result = made.result
    assert made.state == "done"
    assert result is not None
    [removed], [added] = result.removed, result.added
    assert (len(removed.words), len(added.words)) == (1, 1)
    assert removed.words[0] in {"red", "shiny", "grass"} - STOP_WORDS
    assert added.words[0] in WORDS
    assert result.edited_caption == "A red,  shiny sled; on grass.".replace(removed.words[0], added.words[0])
    assert set(result.predictions) == {"steady", "leaning"}
    assert result.strength == 0.4
    assert result.models["masked-lm"] == "fake-masked-lm@0"
    assert result.cost.unet_evaluations > 0


async def test_the_baseline_leaves_edits_and_controls_unchanged() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=Filler(world))
    sources = [world.source("sled", 0)]
    (before, first), (after, second) = [
        await stress_test(world, sources, services, lance_r_edits_per_image=number) for number in (0, 3)
    ]
    others = [item for item in after if item.kind != "lance-r"]
    assert others == before
    assert len(after) == len(before) + 3
    assert len({item.item_key for item in after}) == len(after)
    images = [
        [record.outcomes[f"item-{item.ordinal}"].result for item in before] for record in (first, second)
    ]
    pairs = zip(*images, strict=True)
    assert all(one and other and one.image == other.image for one, other in pairs)


async def test_adding_slots_leaves_the_first_ones_unchanged() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=Filler(world))
    few, many = [
        await stress_test(world, [world.source("sled", 0)], services, lance_r_edits_per_image=number)
        for number in (2, 6)
    ]
    assert edited(baseline(*many))[:2] == edited(baseline(*few))
    keys = [[item.item_key for item in items if item.kind == "lance-r"] for items, _ in (few, many)]
    assert keys[1][:2] == keys[0]


async def test_edits_of_a_source_are_distinct_and_seeded_by_the_run() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=Filler(world))
    sources = [world.source("sled", 0)]
    drawn = [
        edited(baseline(*await stress_test(world, sources, services, seed=seed, lance_r_edits_per_image=16)))
        for seed in (3, 3, 4)
    ]
    assert len(set(drawn[0])) == 16
    assert drawn[0] == drawn[1] != drawn[2]


async def test_each_slot_has_its_own_seeds_and_word_order() -> None:
    world = FakeWorld()
    scorer = Filler(world)
    services = fake_services(world, scorer=scorer)
    await stress_test(world, [world.source("sled", 0)], services, lance_r_edits_per_image=4)
    assert len({item.seed for item in scorer.asked}) == len(scorer.asked)
    orders = {tuple(item.position for item in scorer.asked[start : start + 4]) for start in range(0, 16, 4)}
    # photo, red, grass, dog
    assert {frozenset(order) for order in orders} == {frozenset({1, 4, 8, 12})}
    assert len(orders) > 1


class _OnlyDogs(Filler):
    """Has words for the dog alone: nothing, the same, the class, or a stop word of its own elsewhere."""

    def fill(self, item: FillMaskItem) -> Outcome[FilledMask]:
        word = item.text.split()[item.position]
        if word == "photo":
            return refused(InvalidRequest("a stop word"))
        words = {"red": ["Red"], "grass": ["sled", "sleds"], "dog": ["kitten"]}.get(word, [])
        return Outcome(value=FilledMask(words=words, probabilities=[0.1] * len(words)))


@pytest.mark.parametrize("seed", range(6))
async def test_the_next_word_is_tried_if_one_has_no_usable_replacement(seed: int) -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_OnlyDogs(world))
    items, record = await stress_test(
        world, [world.source("sled", 0)], services, seed=seed, lance_r_edits_per_image=2
    )
    one, two = baseline(items, record)
    assert edited([one]) == ["a photo of a red sled on the grass next to a kitten"]
    assert (two.state, two.reason) == ("filtered", "no-edit")
    assert two.detail is not None
    assert two.detail.startswith("no new word for ")
    assert "'dog'" in two.detail


async def test_a_caption_of_only_stop_words_and_class_is_filtered_without_a_call() -> None:
    world = FakeWorld()
    scorer = Filler(world)
    source = world.source("sled", 0, caption="this is a sled")
    items, record = await stress_test(
        world, [source], fake_services(world, scorer=scorer), lance_r_edits_per_image=1
    )
    [dropped] = baseline(items, record)
    assert (dropped.reason, dropped.detail) == ("no-edit", "the caption has no word to replace")
    assert scorer.asked == []


class _OldWordStays(Filler):
    def measure(self, item: ScoreItem) -> EditScores:
        return super().measure(item).model_copy(update={"words_added": 0.2, "words_removed": 0.2})


@pytest.mark.paper("LANCE-B-lance-r-clip")
async def test_an_image_no_nearer_to_the_new_word_is_filtered_with_its_own_reason() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_OldWordStays(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services, lance_r_edits_per_image=1)
    [dropped] = baseline(items, record)
    assert (dropped.state, dropped.reason) == ("filtered", "gate-new-word")
    assert dropped.result is not None
    assert states(record) == {"done": 7, "gate-new-word": 1}


class _FarFromTheOriginal(Filler):
    def measure(self, item: ScoreItem) -> EditScores:
        return super().measure(item).model_copy(update={"image_image": 0.1, "direction": -0.5})


async def test_the_lance_gate_does_not_apply_to_the_baseline() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_FarFromTheOriginal(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services, lance_r_edits_per_image=1)
    assert [each.state for each in baseline(items, record)] == ["done"]
    assert outcome(items, record, "edit", "object").state == "filtered"


async def test_retrying_one_slot_gives_the_same_edit() -> None:
    world = FakeWorld()
    perturber = FakePerturber()
    services = fake_services(world, scorer=Filler(world), perturber=perturber)
    config, items = await planned([world.source("sled", 0)], services, lance_r_edits_per_image=8)
    [group] = lease_all(config, items)
    together, alone = FakeRecorder(), FakeRecorder()
    await process(group, services=services, record=together, store=world.store)
    asked = perturber.calls["perturb"]
    last = [item for item in group.items if item.kind == "lance-r" and item.slot == 7]
    await process(replace(group, items=last), services=services, record=alone, store=world.store)
    assert [*alone.outcomes] == [last[0].id]
    assert edited([alone.outcomes[last[0].id]]) == edited([together.outcomes[last[0].id]]) != []
    assert perturber.calls["perturb"] == asked


class _Fails(Filler):
    async def fill_mask(self, request: FillMaskRequest) -> FillMaskResponse:
        raise BackendUnavailable("the scorer is gone")


class _FailsForOne(Filler):
    def fill(self, item: FillMaskItem) -> Outcome[FilledMask]:
        return refused(BackendUnavailable("no memory"))


class _NoWord(Filler):
    words = ("two words",)


@pytest.mark.parametrize(
    ("scorer", "code"),
    [
        (_Fails, "backend-unavailable"),
        (_FailsForOne, "backend-unavailable"),
        (_NoWord, "bad-backend-output"),
    ],
)
async def test_a_failing_masked_lm_fails_only_the_baseline(scorer: type[Filler], code: str) -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=scorer(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services, lance_r_edits_per_image=2)
    assert [each.error.code for each in baseline(items, record) if each.error] == [code] * 2
    assert states(record) == {"done": 7, "failed": 2}


class _MutePerturber(FakePerturber):
    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        raise BackendUnavailable("the perturber is gone")


async def test_a_failing_perturber_does_not_fail_the_baseline() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=Filler(world), perturber=_MutePerturber())
    items, record = await stress_test(world, [world.source("sled", 0)], services, lance_r_edits_per_image=2)
    assert [each.state for each in baseline(items, record)] == ["done", "done"]
    assert states(record) == {"done": 3, "failed": 6}
