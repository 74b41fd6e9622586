"""The stages of refinement: what they plan, what is left, and what the summary tells."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.bug_hunt.generator_gap import least_rate
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntItem, HuntShares
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.methods.bug_hunt.summary import summarize
from fakes.hunted_items import hunt_config, hunt_run, sample

FOUND = HuntInstruction(
    phase="hypothesis", prompt="a photo of a fly among the yellow flowers next to a dog", hypothesis=1,
    source="caption", words="yellow flowers dog", classifiers=["model"],
)  # fmt: skip
FLOWERS = "a photo of a fly among the yellow flowers"
SHORTEST = "a photo of a fly among the flowers"


def refining(images: int = 32, refinement: int = 448) -> BugHuntConfig:
    shares = HuntShares(baseline=200, hypotheses=60, held_out=64, refinement=refinement)
    config = hunt_config(shares=shares)
    return config.model_copy(update={"request": config.request.model_copy(update={"refine": images})})


def samples(first: int, failures: int, told: HuntInstruction, stage: int, images: int = 32) -> list[HuntItem]:
    return [
        sample(first + n, "bee" if n < failures else "fly", told=told, stage=stage) for n in range(images)
    ]


def found() -> list[HuntItem]:
    baseline = [sample(n, "bee" if n < 10 else "fly") for n in range(200)]
    return [*baseline, *samples(1000, 58, FOUND, 3, 60)]


def prompts(config: BugHuntConfig, items: Sequence[HuntItem], stage: int) -> dict[int | None, str | None]:
    plan = next_stage(hunt_run(config, stage), items)
    told = [HuntInstruction.model_validate(item.instruction) for item in ([] if plan is None else plan.items)]
    return {each.hypothesis: each.prompt for each in told}


def told(number: int, prompt: str, source: str, refines: int, left_out: str) -> HuntInstruction:
    return HuntInstruction.model_validate(
        {
            "phase": "refinement", "prompt": prompt, "hypothesis": number, "source": source,
            "refines": refines, "left_out": left_out, "words": prompt.removeprefix("a photo of a fly "),
            "classifiers": ["model"],
        }
    )  # fmt: skip


def parts(flowers: int = 30) -> list[HuntItem]:
    whole = FOUND.model_copy(update={"phase": "refinement"})
    return [
        *samples(2000, 31, whole, 4),
        *samples(2100, flowers, told(2, FLOWERS, "part", 1, "next to a dog"), 4),
        *samples(2200, 1, told(3, "a photo of a fly next to a dog", "part", 1, "among the flowers"), 4),
    ]


def adjectives() -> list[HuntItem]:
    return samples(2300, 31, told(4, SHORTEST, "adjective", 2, "yellow"), 5)


def test_without_refinement_held_out_images_follow() -> None:
    assert set(prompts(refining(0), found(), 6)) == {None, 1}


def test_parts_come_first_beside_the_whole_then_adjectives_then_held_out_images() -> None:
    config, items = refining(), found()
    assert prompts(config, items, 6) == {
        1: FOUND.prompt, 2: FLOWERS, 3: "a photo of a fly next to a dog",
    }  # fmt: skip
    items += parts()
    assert prompts(config, items, 7) == {4: SHORTEST}
    items += adjectives()
    assert prompts(config, items, 8) == {None: "a photo of a fly", 4: SHORTEST}


def test_a_part_that_fails_less_often_is_not_taken() -> None:
    items = [*found(), *parts(flowers=12)]
    # The whole is left, and its adjective is tried.
    assert prompts(refining(), items, 7) == {4: "a photo of a fly among the flowers next to a dog"}


def test_no_more_forms_are_planned_than_the_budget_has_images_for() -> None:
    assert set(prompts(refining(refinement=64), found(), 6)) == {1, 2}
    assert set(prompts(refining(refinement=63), found(), 6)) == {None, 1}


def test_the_bug_tells_its_shorter_forms_with_rates_and_verdicts() -> None:
    config = refining()
    shortest = told(4, SHORTEST, "adjective", 2, "yellow").model_copy(update={"phase": "held-out"})
    held_out = samples(5000, 60, shortest, 6, 64)
    base = samples(6000, 2, HuntInstruction(phase="held-out", prompt="a photo of a fly"), 6, 64)
    summary = summarize(hunt_run(config, 6), [*found(), *parts(), *adjectives(), *held_out, *base])
    (told_of,) = summary.bugs
    # The search went from the label over the whole and its part to the part without an adjective.
    assert [(each.kind, each.parent, each.failure.failures) for each in summary.tree] == [
        ("baseline", None, 10), ("description", 0, 58), ("form", 1, 30), ("form", 1, 1), ("form", 2, 31),
        ("held-out", 4, 60),
    ]  # fmt: skip
    assert (told_of.description, told_of.found_as, told_of.state) == (SHORTEST, FOUND.prompt, "breaks")
    assert (told_of.held_out.failures, told_of.held_out.rate.n) == (60, 64)
    assert told_of.unrefined is not None
    assert (told_of.unrefined.failures, told_of.unrefined.rate.n) == (31, 32)
    assert [(each.left_out, each.need, each.failure.failures) for each in told_of.refinement] == [
        ("next to a dog", "not-needed", 30), ("among the flowers", "needed", 1), ("yellow", "not-needed", 31),
    ]  # fmt: skip


def test_a_proven_bug_tells_what_a_users_images_surely_reach_where_the_generator_was_measured() -> None:
    shortest = told(4, SHORTEST, "adjective", 2, "yellow").model_copy(update={"phase": "held-out"})
    held_out = samples(5000, 60, shortest, 6, 64)
    base = samples(6000, 2, HuntInstruction(phase="held-out", prompt="a photo of a fly"), 6, 64)
    items = [*found(), *parts(), *adjectives(), *held_out, *base]
    (unmeasured,) = summarize(hunt_run(refining(), 6), items).bugs
    config = refining().model_copy(update={"generator_gap": 1.2})
    (measured,) = summarize(hunt_run(config, 6), items).bugs
    assert unmeasured.at_least is None
    assert measured.at_least == least_rate(60, 64, 1.2)
    assert "60 of 64 held-out images of this generator fail" in measured.sentence


def test_two_winners_that_end_in_one_form_are_one() -> None:
    night = FOUND.model_copy(
        update={"prompt": f"{FLOWERS} at night", "hypothesis": 2, "words": "yellow flowers night"}
    )
    whole = [each.model_copy(update={"phase": "refinement"}) for each in (FOUND, night)]
    items = [
        *found(), *samples(7000, 57, night, 3, 60),
        *samples(2000, 31, whole[0], 4), *samples(2100, 31, told(3, FLOWERS, "part", 1, "next to a dog"), 4),
        *samples(2200, 31, whole[1], 4), *samples(2300, 31, told(4, FLOWERS, "part", 2, "at night"), 4),
    ]  # fmt: skip
    assert prompts(refining(), items, 7) == {5: SHORTEST}


def of_colour(number: int, colour: str, phase: str = "hypothesis") -> HuntInstruction:
    """A description with an adjective that makes no difference."""
    return HuntInstruction.model_validate(
        {
            "phase": phase, "prompt": f"a photo of a {colour} fly at night", "hypothesis": number,
            "source": "caption", "words": f"{colour} night", "classifiers": ["model"],
        }
    )  # fmt: skip


def test_two_winners_that_differ_by_an_idle_adjective_share_their_forms_and_are_one_bug() -> None:
    winners = [of_colour(1, "white"), of_colour(2, "yellow")]
    baseline = [sample(n, "bee" if n < 10 else "fly") for n in range(200)]
    items = [*baseline, *samples(1000, 58, winners[0], 3, 60), *samples(1100, 57, winners[1], 3, 60)]
    night = "a photo of a fly at night"
    planned = prompts(refining(), items, 6)
    assert list(planned.values()).count(night) == 1
    items += samples(2000, 31, of_colour(1, "white", "refinement"), 4)
    items += samples(2100, 30, of_colour(2, "yellow", "refinement"), 4)
    for number, prompt in planned.items():
        if number not in (1, 2):
            failures = 30 if prompt == night else 2
            items += samples(
                2200 + 100 * (number or 0), failures, told(number or 0, prompt or "", "part", 1, "white"), 4
            )
    while None not in prompts(refining(), items, 7):
        ((number, prompt),) = prompts(refining(), items, 7).items()
        items += samples(
            9000, 30 if prompt == night else 2, told(number or 0, prompt or "", "adjective", 1, "white"), 5
        )
    held_out = prompts(refining(), items, 8)
    assert list(held_out.values()) == ["a photo of a fly", night]


def test_a_form_that_is_a_part_and_what_an_adjective_leaves_is_drawn_and_told_once() -> None:
    found_as = of_colour(1, "white")
    items = [sample(n, "bee" if n < 10 else "fly") for n in range(200)]
    items += samples(1000, 58, found_as, 3, 60) + samples(2000, 31, of_colour(1, "white", "refinement"), 4)
    planned = {number: prompt for number, prompt in prompts(refining(), items, 7).items() if number != 1}
    assert sorted(map(str, planned.values())) == ["a photo of a fly at night", "a photo of a white fly"]
    for number, prompt in planned.items():
        items += samples(2200 + 100 * (number or 0), 16, told(number or 0, prompt or "", "part", 1, "x"), 4)
    assert None in prompts(refining(), items, 8)
    held_out = samples(6000, 60, of_colour(1, "white", "held-out"), 6, 64)
    (bug,) = summarize(hunt_run(refining(), 6), [*items, *held_out]).bugs
    assert sorted(form.prompt for form in bug.refinement) == sorted(map(str, planned.values()))
