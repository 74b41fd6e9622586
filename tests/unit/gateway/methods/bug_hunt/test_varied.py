"""Images of edited captions: which captions are edited, which edits are drawn, and what follows from them."""

from __future__ import annotations

from counterpose_core.contract.bug_hunts import HuntInstruction, HuntItem, HuntShares
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.methods.bug_hunt.varied import captions_to_edit, edited_captions, plan_varied
from fakes.hunted_items import CLASSES, caption, hunt_config, hunt_run, sample

SHARES = HuntShares(baseline=40, hypotheses=100, held_out=32, varied=25)
CONFIG = hunt_config(shares=SHARES)
PLACES = ("on sand", "in snow")
PLACES = ("on sand", "in snow")


def edited(of: HuntItem, *texts: str) -> HuntItem:
    told = caption(of, "a photo of a fly on the road")
    assert told.result is not None
    return told.model_copy(update={"result": told.result.model_copy(update={"edited": list(texts)})})


def test_four_times_as_many_edits_are_asked_for_as_there_are_images_to_choose_among_them() -> None:
    baseline = [sample(number) for number in range(40)]
    # Four edits of each of five types: five captions give a hundred.
    wanted = captions_to_edit(Hunt.of(CONFIG, baseline), "fly")
    assert [item.slot for item in wanted] == [0, 1, 2, 3, 4]


def test_edits_take_turns_and_lost_labels_and_other_classes_are_left_out() -> None:
    assert "bee" in CLASSES
    first = edited(sample(0), "a fly at night", "a bee at night", "a fly in the fog")
    second = edited(sample(1), "a painting of a fly", "a fly at night", "a road")
    items = [sample(0), sample(1), first, second]
    drawn = list(plan_varied(Hunt.of(CONFIG, items)))
    prompts = [HuntInstruction.model_validate(item.instruction).prompt for item in drawn]
    # 25 images are wanted, and only three captions are different.
    assert prompts == ["a fly at night", "a painting of a fly", "a fly in the fog"]
    assert [item.slot for item in drawn] == [0, 1, 2]
    two = hunt_config(shares=SHARES.model_copy(update={"varied": 2}))
    assert list(plan_varied(Hunt.of(two, items))) == drawn[:2]


def test_images_for_which_there_was_no_other_caption_are_told() -> None:
    made = edited(sample(0), "a fly at night", "a fly in the fog", "a fly in snow", "a road")
    told = [
        HuntInstruction(phase="varied", prompt=prompt) for prompt in ("a fly at night", "a fly in the fog")
    ]
    drawn = [sample(100 + at, told=each, stage=3) for at, each in enumerate(told)]
    # Two captions were drawn of three: the time was too short for more.
    (stopped,) = edited_captions(Hunt.of(CONFIG, [sample(0), made, *drawn]))
    assert (stopped.captions, stopped.lacking) == (2, 0)
    third = sample(102, told=HuntInstruction(phase="varied", prompt="a fly in snow"), stage=3)
    (short,) = edited_captions(Hunt.of(CONFIG, [sample(0), made, *drawn, third]))
    assert (short.captions, short.lacking, short.dropped) == (3, SHARES.varied - 3, {"lost-label": 1})


def test_a_label_whose_captions_have_no_usable_edit_gets_no_images() -> None:
    assert list(plan_varied(Hunt.of(CONFIG, [sample(0), edited(sample(0), "a road")]))) == []


def test_failures_of_edited_captions_are_captioned_and_described() -> None:
    run = hunt_run(CONFIG, 3)
    baseline = [sample(number) for number in range(40)]
    # Only different captions are drawn.
    captions = [
        edited(
            baseline[number],
            *(
                f"a fly {light} by artist{5 * number + n}"
                for n in range(5)
                for light in ("at night", "in the fog")
            ),
        )
        for number in range(3)
    ]
    plan = next_stage(run, iter([*baseline, *captions]))
    assert plan is not None
    drawn = [HuntInstruction.model_validate(item.instruction) for item in plan.items]
    assert ({told.phase for told in drawn}, len(drawn)) == ({"varied"}, SHARES.varied)
    varied = [
        sample(100 + at, "bee" if "at night" in (told.prompt or "") else "fly", told=told, stage=3)
        for at, told in enumerate(drawn)
    ]
    more = next_stage(run, iter([*baseline, *captions, *varied]))
    assert more is not None
    asked = [HuntInstruction.model_validate(item.instruction) for item in more.items]
    assert {told.phase for told in asked} == {"captions"}
    assert not any(told.edit for told in asked)
    written = [
        caption(item, f"a photo of {(item.instruction or asked[0]).prompt} {PLACES[at % 3 % 2]}")
        for at, item in enumerate(varied)
    ]
    tried = next_stage(run, iter([*baseline, *captions, *varied, *written]))
    assert tried is not None
    prompts = {HuntInstruction.model_validate(item.instruction).prompt for item in tried.items}
    assert "a photo of a fly at night" in prompts


def test_without_failures_nothing_more_follows_edited_captions() -> None:
    baseline = [sample(number) for number in range(40)]
    captions = [edited(baseline[number], "a fly at night") for number in range(3)]
    told = HuntInstruction(phase="varied", prompt="a fly at night")
    varied = [sample(100 + at, told=told, stage=3) for at in range(25)]
    assert next_stage(hunt_run(CONFIG, 3), iter([*baseline, *captions, *varied])) is None
