"""The user's own edits: planned beside all others, made as they were asked for, refused for one reason."""

from __future__ import annotations

import pytest

from fakes.ports import fake_services
from fakes.recorder import FakeRecorder, Recorded
from fakes.runs import planned, states, stress_test, stress_test_request
from fakes.world import FakeWorld
from faultline_core.errors import InvalidRequest
from faultline_gateway.work_items import PlannedItem

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
        *await stress_test(world, [source], services, interventions=interventions, max_edits_per_image=0)
    )


async def test_each_is_made_and_predicted_like_an_edit() -> None:
    replaced, appended = await made(CAPTION, SNOW, APPENDED)
    assert replaced.result is not None
    assert appended.result is not None
    assert replaced.result.edited_caption == "A red sled on the snow."
    assert appended.result.edited_caption == "A red sled on the grass in the fog."
    assert (replaced.result.removed[0].words, replaced.result.added[0].words) == (["grass"], ["snow"])
    assert set(replaced.result.predictions) == {"steady", "leaning"}
    assert replaced.result.predictions["leaning"].p_true < 0.5 < appended.result.predictions["leaning"].p_true
    assert replaced.result.scores is not None
    assert replaced.result.self_replace is not None


async def test_a_caption_without_the_words_is_filtered_and_says_so() -> None:
    absent, gone = await made("the grass", {"removed": "rain"}, {"removed": "the grass"})
    assert (absent.state, absent.reason, absent.detail) == (
        "filtered", "not-applicable", "the caption has no 'rain'",
    )  # fmt: skip
    assert (gone.reason, gone.detail) == (
        "not-applicable", "of the caption nothing would be left without 'the grass'",
    )  # fmt: skip


async def test_a_caption_that_would_grow_too_long_is_not_edited() -> None:
    [long] = await made("grass " * 600, {"removed": "grass", "added": "a field of snow"})
    assert (long.reason, long.detail) == (
        "not-applicable", "the caption would be longer than 4000 characters",
    )  # fmt: skip


@pytest.mark.parametrize("words", [{"removed": "sled", "added": "boat"}, {"added": "beside sleds"}])
async def test_an_edit_that_names_the_class_is_refused(words: dict[str, str]) -> None:
    [refused] = await made(CAPTION, words)
    assert (refused.state, refused.reason) == ("filtered", "label-in-edit")


async def test_words_are_the_user_s_choice_though_a_filter_would_refuse_them() -> None:
    [subjective] = await made(CAPTION, {"removed": "red", "added": "beautiful"})
    assert subjective.state == "done"


async def test_all_other_items_are_the_same_beside_them() -> None:
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


async def test_a_key_is_made_from_the_words_wherever_they_stand_in_the_list() -> None:
    world = FakeWorld()
    sources, services = [world.source("sled", 0)], fake_services(world)
    keys = []
    for interventions in ([SNOW, APPENDED], [APPENDED, SNOW]):
        _, items = await planned(sources, services, interventions=interventions)
        keys.append([item.item_key for item in items if item.kind == "intervention"])
    assert keys[0] == keys[1][::-1]


async def test_a_run_of_them_alone_has_its_controls_and_no_edit() -> None:
    world = FakeWorld()
    sources, services = [world.source("sled", 0)], fake_services(world)
    items, record = await stress_test(world, sources, services, interventions=[SNOW], max_edits_per_image=0)
    assert [item.kind for item in items] == ["reconstruction", "placebo", "intervention"]
    assert states(record) == {"done": 3}


async def test_words_that_hide_something_are_refused_with_their_place() -> None:
    world = FakeWorld()
    services, wrong = fake_services(world), [SNOW, {"removed": "grass", "added": "sn\u200bow"}]
    with pytest.raises(InvalidRequest, match="hidden") as refused:
        await planned([world.source("sled", 0)], services, interventions=wrong)
    assert refused.value.pointer == "/interventions/1/added"


def test_a_request_edits_something() -> None:
    assert stress_test_request(max_edits_per_image=0, interventions=[SNOW]).tested_types == []
    refused: tuple[dict[str, object], ...] = (
        {"max_edits_per_image": 0},
        {"interventions": [SNOW, {"removed": "Grass", "added": "SNOW"}]},
        {"interventions": [{"added": f"thing {number}"} for number in range(17)]},
    )
    for wrong in refused:
        with pytest.raises(ValueError, match="interventions"):
            stress_test_request(**wrong)
