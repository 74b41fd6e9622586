"""Interventions: planned with all other edits, generated as requested, free to use subjective words."""

from __future__ import annotations

import pytest

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.records.items import PlannedItem
from fakes.ports import fake_services
from fakes.recorder import FakeRecorder, Recorded
from fakes.runs import planned, states, stress_test, stress_test_request
from fakes.world import FakeWorld

SNOW = {"removed": "grass", "added": "snow"}
APPENDED = {"added": "in the fog"}
CAPTION = "A red sled on the grass."


def chosen(items: list[PlannedItem], record: FakeRecorder) -> list[Recorded]:
    """The outcomes of the interventions, in order."""
    return [record.outcomes[f"item-{item.ordinal}"] for item in items if item.kind == "intervention"]


async def made(caption: str, *interventions: dict[str, str], label: str = "sled") -> list[Recorded]:
    """What becomes of interventions alone in one caption."""
    world = FakeWorld()
    source = world.source(label, 0, caption=caption)
    services = fake_services(world)
    return chosen(
        *await stress_test(
            world, [source], services, interventions=list(interventions), max_edits_per_image=0
        )
    )


@pytest.mark.paper("LANCE-F11-breeds")
async def test_each_intervention_is_generated_and_predicted_like_an_edit() -> None:
    replaced, appended = await made(CAPTION, SNOW, APPENDED)
    assert replaced.result is not None
    assert appended.result is not None
    assert replaced.result.edited_caption == "A red sled on the snow."
    assert appended.result.edited_caption == "A red sled on the grass in the fog."
    assert (replaced.result.removed[0].words, replaced.result.added[0].words) == (["grass"], ["snow"])
    assert set(replaced.result.predictions) == {"steady", "leaning"}
    assert replaced.result.predictions["leaning"].score < 0.5 < appended.result.predictions["leaning"].score
    assert replaced.result.scores is not None
    assert replaced.result.strength is not None


async def test_a_caption_without_the_words_is_filtered_with_a_reason() -> None:
    absent, gone = await made("the grass", {"removed": "rain"}, {"removed": "the grass"})
    assert (absent.state, absent.reason, absent.detail) == (
        "filtered", "not-applicable", "the caption does not contain 'rain'",
    )  # fmt: skip
    assert (gone.reason, gone.detail) == (
        "not-applicable", "the caption would be empty without 'the grass'",
    )  # fmt: skip


async def test_a_caption_that_would_grow_too_long_is_not_edited() -> None:
    [long] = await made("grass " * 600, {"removed": "grass", "added": "a field of snow"})
    assert (long.reason, long.detail) == (
        "not-applicable", "the caption would be longer than 4000 characters",
    )  # fmt: skip


@pytest.mark.parametrize("words", [{"removed": "sled", "added": "boat"}, {"added": "beside sleds"}])
async def test_an_intervention_that_names_the_class_is_filtered(words: dict[str, str]) -> None:
    [refused] = await made(CAPTION, words)
    assert (refused.state, refused.reason) == ("filtered", "label-in-edit")


async def test_interventions_may_use_subjective_words() -> None:
    [subjective] = await made(CAPTION, {"removed": "red", "added": "beautiful"})
    assert subjective.state == "done"


async def test_interventions_leave_all_other_items_unchanged() -> None:
    world = FakeWorld()
    sources = [world.source("sled", 0), world.source("boat", 1)]
    services = fake_services(world)
    (before, first), (after, second) = [
        await stress_test(world, sources, services, lance_r_edits_per_image=2, interventions=interventions)
        for interventions in ([], [SNOW, APPENDED])
    ]
    others = [item for item in after if item.kind != "intervention"]
    assert [item.item_key for item in others] == [item.item_key for item in before]
    assert len({item.item_key for item in after}) == len(after) == len(before) + 4
    images = [
        [record.outcomes[f"item-{item.ordinal}"].result for item in items]
        for items, record in ((before, first), (others, second))
    ]
    assert all(one and other and one.image == other.image for one, other in zip(*images, strict=True))


async def test_an_item_key_depends_on_the_words_and_not_on_their_position() -> None:
    world = FakeWorld()
    sources, services = [world.source("sled", 0)], fake_services(world)
    keys = []
    for interventions in ([SNOW, APPENDED], [APPENDED, SNOW]):
        _, items = await planned(sources, services, interventions=interventions)
        keys.append([item.item_key for item in items if item.kind == "intervention"])
    assert keys[0] == keys[1][::-1]


async def test_a_run_of_only_interventions_has_controls_and_no_edits() -> None:
    world = FakeWorld()
    sources, services = [world.source("sled", 0)], fake_services(world)
    items, record = await stress_test(world, sources, services, interventions=[SNOW], max_edits_per_image=0)
    assert [item.kind for item in items] == ["reconstruction", "placebo", "intervention"]
    assert states(record) == {"done": 3}


async def test_words_with_hidden_characters_are_refused_by_pointer() -> None:
    world = FakeWorld()
    services, wrong = fake_services(world), [SNOW, {"removed": "grass", "added": "sn\u200bow"}]
    with pytest.raises(InvalidRequest, match="hidden") as refused:
        await planned([world.source("sled", 0)], services, interventions=wrong)
    assert refused.value.pointer == "/interventions/1/added"


def test_a_request_without_any_edit_is_refused() -> None:
    assert stress_test_request(max_edits_per_image=0, interventions=[SNOW]).tested_types == []
    refused: tuple[dict[str, object], ...] = (
        {"max_edits_per_image": 0},
        {"interventions": [SNOW, {"removed": "Grass", "added": "SNOW"}]},
        {"interventions": [{"added": f"thing {number}"} for number in range(17)]},
    )
    for wrong in refused:
        with pytest.raises(ValueError, match="interventions"):
            stress_test_request(**wrong)
