"""The stages of a hunt, planned from recorded items alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntItem, HuntWords
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.records.items import PlannedItem
from fakes.hunted_items import caption, combination, hunt_config, hunt_run, sample

FLOWERS = HuntInstruction(
    phase="hypothesis", prompt="a photo of a fly among the flowers", hypothesis=1, source="words",
    words="among the flowers", classifiers=["model"],
)  # fmt: skip


def planned(config: BugHuntConfig, items: Sequence[HuntItem], stage: int) -> list[PlannedItem]:
    plan = next_stage(hunt_run(config, stage), items)
    found = [] if plan is None else list(plan.items)
    assert [item.ordinal for item in found] == list(range(len(found)))
    assert len({item.item_key for item in found}) == len(found)
    return found


def phases(items: Sequence[PlannedItem]) -> Counter[tuple[str, int | None]]:
    told = [HuntInstruction.model_validate(item.instruction) for item in items]
    return Counter((each.phase, each.hypothesis) for each in told)


def baseline(failures: int, images: int = 200, seconds: float = 0.0) -> list[HuntItem]:
    return [sample(n, "bee" if n < failures else "fly", seconds=seconds) for n in range(images)]


def described(
    failures: int, images: int, *, stage: int = 3, told: HuntInstruction = FLOWERS
) -> list[HuntItem]:
    first = 20_000 * (told.hypothesis or 1) + 1_000 * stage
    return [
        sample(first + n, "bee" if n < failures else "fly", told=told, stage=stage) for n in range(images)
    ]


def test_the_rest_of_the_baseline_follows_its_first_images() -> None:
    found = planned(hunt_config(), baseline(0, 64), 1)
    assert phases(found) == {("baseline", None): 136}
    assert [item.slot for item in found] == list(range(64, 200))


def test_a_budget_of_minutes_leaves_time_for_held_out_images() -> None:
    # A second an image: 64 of 330 are spent, 192 are held back, and 64 for a round of eight descriptions.
    found = planned(hunt_config(minutes=5.5), baseline(0, 64, seconds=1.0), 1)
    assert phases(found) == {("baseline", None): 330 - 64 - 192 - 64}
    # Where no time is left, what there is gets captions.
    assert phases(planned(hunt_config(minutes=1), baseline(3, 64, seconds=1.0), 1)) == {
        ("captions", None): 35
    }


def test_as_many_successes_as_failures_are_captioned_up_to_the_most() -> None:
    assert phases(planned(hunt_config(), baseline(5), 2)) == {("captions", None): 5 + 32}
    assert phases(planned(hunt_config(), baseline(150), 2)) == {("captions", None): 32 + 32}


def test_a_label_that_never_fails_or_always_does_ends_the_hunt() -> None:
    assert planned(hunt_config(), baseline(0), 2) == []
    assert planned(hunt_config(), baseline(200), 2) == []


def test_captions_that_name_no_label_end_the_hunt() -> None:
    items = baseline(5)
    captions = [caption(item, "a dog in the snow") for item in items[:37]]
    assert planned(hunt_config(), [*items, *captions], 3) == []


def test_words_of_failures_are_tried_first_on_new_images() -> None:
    items = baseline(12)
    told = [caption(each, "a photo of a fly among the flowers") for each in items[:12]]
    told += [
        caption(each, f"a photo of a fly on the {'grass' if each.slot % 2 else 'sand'}")
        for each in items[12:44]
    ]
    found = planned(hunt_config(), [*items, *told], 3)
    first = HuntInstruction.model_validate(found[0].instruction)
    assert (first.prompt, first.source, first.classifiers) == (FLOWERS.prompt, "words", ["model"])


def weighing(words: HuntWords) -> BugHuntConfig:
    config = hunt_config()
    return config.model_copy(update={"request": config.request.model_copy(update={"words": words})})


@pytest.mark.parametrize(("words", "free", "forced"), [("likelihood", 0, 5), ("both", 37, 5)])
def test_the_likelihood_needs_captions_of_failures_that_go_on_from_the_prompt(
    words: HuntWords, free: int, forced: int
) -> None:
    found = planned(weighing(words), baseline(5), 2)
    told = Counter(HuntInstruction.model_validate(item.instruction).prompt for item in found)
    assert (told[None], told["a photo of a fly"]) == (free, forced)


def test_sentences_of_all_failures_are_combined_in_one_item_of_its_own_stage() -> None:
    items = baseline(3)
    texts = ("in the snow next to a dog", "in the snow", "next to a bee")
    forced = "a photo of a fly"
    items += [
        caption(each, f"{forced} {text}", prompt=forced) for each, text in zip(items[:3], texts, strict=True)
    ]
    (item,) = planned(weighing("likelihood"), items, 3)
    told = HuntInstruction.model_validate(item.instruction)
    assert (item.kind, told.phase, told.classifiers) == ("combination", "combination", ["model"])
    # The caption that names another class is left out, with its image.
    assert told.images == [each.source_image for each in items[200:202]]
    assert told.sentences == ["in the snow", "next to a dog"]


def test_a_combination_is_tried_whole_and_each_of_its_sentences_alone() -> None:
    items = baseline(3)
    combined = combination(["among the flowers", "next to a dog", "at night"])
    found = planned(weighing("likelihood"), [*items, combined], 4)
    told = [HuntInstruction.model_validate(item.instruction) for item in found]
    assert list(dict.fromkeys((each.prompt, each.source) for each in told)) == [
        ("a photo of a fly among the flowers next to a dog at night", "combination"),
        ("a photo of a fly among the flowers", "combination"),
        ("a photo of a fly next to a dog", "combination"),
        ("a photo of a fly at night", "combination"),
        ("a photo of a fly among the flowers next to a dog", "combination"),
    ]


def test_a_hopeless_description_gets_no_more_images_and_nothing_is_held_out() -> None:
    assert planned(hunt_config(), [*baseline(20), *described(1, 20)], 4) == []


def test_a_promising_description_gets_more_images_then_held_out_ones_beside_the_baseline() -> None:
    items = [*baseline(10), *described(15, 60)]
    more = planned(hunt_config(), items, 4)
    assert phases(more) == {("hypothesis", 1): 70}
    assert more[0].slot == 60
    items += described(15, 70, stage=4)
    assert phases(planned(hunt_config(), items, 5)) == {("hypothesis", 1): 70}
    items += described(15, 70, stage=5)
    held_out = planned(hunt_config(), items, 6)
    assert phases(held_out) == {("held-out", None): 64, ("held-out", 1): 64}


def test_held_out_images_end_the_hunt() -> None:
    told = FLOWERS.model_copy(update={"phase": "held-out"})
    items = [*baseline(10), *described(50, 60), *described(50, 64, stage=4, told=told)]
    assert planned(hunt_config(), items, 7) == []


def test_a_killed_planner_s_stage_is_planned_the_same_again() -> None:
    items = [*baseline(10), *described(15, 60)]
    assert planned(hunt_config(), items, 4) == planned(hunt_config(), items, 4)
