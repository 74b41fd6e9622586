"""The mixture of prompts: its pilot, how its images are divided, and the rate that is weighted back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.bug_hunt.rare import Stratum, divide, rare_rate
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntItem, HuntShares
from counterpose_core.contract.mixtures import Mixture, MixtureComponent
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.methods.bug_hunt.samples import sample_seed
from counterpose_gateway.methods.bug_hunt.summary import summarize
from counterpose_gateway.records.items import LeasedItem, PlannedItem
from fakes.hunted_items import caption, hunt_config, hunt_run, sample

SNOW, FOG, ALONE = "a photo of a fly in the snow", "a photo of a fly in the fog", "a photo of a fly"
PARTS = [
    MixtureComponent(prompt="a photo of a <class> in the snow", share=0.001),
    MixtureComponent(prompt="a photo of a <class> in the fog", share=0.01),
]
SHARES = [0.001, 0.01, 0.989]


def mixed(*, images: int = 600, minutes: float | None = None) -> BugHuntConfig:
    shares = HuntShares(baseline=200, hypotheses=200, held_out=64, mixture=images)
    config = hunt_config(minutes=minutes, shares=shares)
    asked = Mixture(images=images, components=PARTS)
    return config.model_copy(update={"request": config.request.model_copy(update={"mixture": asked})})


def planned(config: BugHuntConfig, items: Sequence[HuntItem], stage: int) -> list[PlannedItem]:
    plan = next_stage(hunt_run(config, stage), items)
    found = [] if plan is None else list(plan.items)
    assert len({item.item_key for item in found}) == len(found)
    return found


def asked(items: Sequence[PlannedItem]) -> Counter[tuple[str, int | None, str | None]]:
    told = [HuntInstruction.model_validate(item.instruction) for item in items]
    return Counter((each.phase, each.component, each.prompt) for each in told)


def made(
    items: Sequence[PlannedItem], failures: dict[int, int], first: int, stage: int, seconds: float = 0.0
) -> list[HuntItem]:
    """The images of a stage; the first ones of each component fail."""
    found, seen = [], Counter[int]()
    for number, item in enumerate(items):
        told = HuntInstruction.model_validate(item.instruction)
        assert told.component is not None
        answer = "bee" if seen[told.component] < failures.get(told.component, 0) else "fly"
        seen[told.component] += 1
        found.append(sample(first + number, answer, told=told, stage=stage, place=item.slot, seconds=seconds))
    return found


BASE = [sample(n) for n in range(200)]
"""A label that never fails: nothing is described, and the mixture is measured all the same."""


def test_a_pilot_is_drawn_of_the_prompts_that_the_hunt_has_too_few_images_of() -> None:
    found = planned(mixed(), BASE, 2)
    assert asked(found) == {("pilot", 1, SNOW): 32, ("pilot", 2, FOG): 32}
    assert planned(mixed(), BASE, 2) == found
    # A description of the same words is a pilot, too, whatever it was drawn for.
    words = HuntInstruction(
        phase="hypothesis", prompt=SNOW, hypothesis=1, words="snow", classifiers=["model"]
    )
    tried = [sample(1000 + n, told=words, stage=3) for n in range(20)]
    more = planned(mixed(), [*BASE, *tried], 4)
    assert asked(more) == {("pilot", 1, SNOW): 12, ("pilot", 2, FOG): 32}
    # At most a quarter of the images.
    assert asked(planned(mixed(images=96), BASE, 2))["pilot", 1, SNOW] == 8


def test_images_go_where_the_pilot_fails_and_each_prompt_has_noise_of_its_own() -> None:
    config = mixed()
    pilot = made(planned(config, BASE, 2), {1: 16}, 1000, 2)
    found = planned(config, [*BASE, *pilot], 3)
    counts = [FailureCounts(16, 32), FailureCounts(0, 32), FailureCounts(0, 200)]
    divided = divide(SHARES, [counts], 600 - 64)
    assert asked(found) == {
        ("mixture", number, prompt): images
        for number, prompt, images in zip((1, 2, 0), (SNOW, FOG, ALONE), divided, strict=True)
    }
    assert divided[0] > 250
    assert [item.slot for item in found] == list(range(sum(divided)))
    images = made(found, {1: 100}, 2000, 3)
    assert planned(config, [*BASE, *pilot, *images], 4) == []
    # The noise of no other phase: what was divided by is not counted again.
    leased = LeasedItem(**vars(found[0]), id="run-1.1", fence=1, attempt=1)
    told = HuntInstruction(phase="mixture", prompt=ALONE, component=0)
    seeds = {
        sample_seed(config, leased, told.model_copy(update={"phase": phase}))
        for phase in ("baseline", "held-out", "pilot", "mixture")
    }
    assert len(seeds) == 4


def test_the_rate_is_weighted_back_and_the_pilot_counts_nowhere() -> None:
    config = mixed()
    pilot = made(planned(config, BASE, 2), {1: 16}, 1000, 2)
    images = made(planned(config, [*BASE, *pilot], 3), {1: 100, 2: 1}, 2000, 3)
    summary = summarize(hunt_run(config, 4), [*BASE, *pilot, *images])
    (found,) = summary.mixtures
    sizes = [each.failure.rate.n for each in found.components]
    assert found.rate == rare_rate([Stratum(*each) for each in zip(SHARES, (100, 1, 0), sizes, strict=True)])
    assert found.rate.n == len(images)
    assert [(each.pilot_failures, each.pilot_images) for each in found.components] == [
        (16, 32), (0, 32), (0, 200)
    ]  # fmt: skip
    assert [each.number for each in found.components] == [1, 2, 0]
    assert found.sentence.startswith(
        "model fails on 0.37 % of images of fly in the mixture (0.017 % to 2 %, "
    )
    assert found.sentence in str(summary)
    # A prompt of which no image counts may fail as often as it likes.
    partly = [each for each in images if each.instruction is None or each.instruction.component != 2]
    (unknown,) = summarize(hunt_run(config, 4), [*BASE, *pilot, *partly]).mixtures
    assert (unknown.rate.estimate, unknown.rate.n) == (None, len(partly))
    assert "not known yet" in unknown.sentence
    assert summarize(hunt_run(config, 3), [*BASE, *pilot]).mixtures == []


def test_time_for_the_mixture_is_kept_back_and_what_is_left_is_divided() -> None:
    # A second an image: 200 are spent, and 100 of 300 are left.
    base = [sample(n, seconds=1.0) for n in range(200)]
    config = mixed(minutes=5)
    found = planned(config, base, 2)
    assert asked(found) == {("pilot", 1, SNOW): 32, ("pilot", 2, FOG): 32}
    images = planned(config, [*base, *made(found, {}, 200, 2, seconds=1.0)], 3)
    assert len(images) == sum(divide(SHARES, [[FailureCounts(0, 32)] * 3], 300 - 264))
    # As little as no image is left of three prompts: nothing is drawn.
    assert planned(mixed(minutes=3.34), base, 2) == []
    # Three failures would be captioned and tried, but all the time is the mixture's.
    failing = [sample(n, "bee" if n < 3 else "fly", seconds=1.0) for n in range(200)]
    told = [caption(each, f"{ALONE} among the flowers") for each in failing[:3]]
    told += [caption(each, f"{ALONE} on the sand") for each in failing[3:35]]
    assert asked(planned(config, [*failing, *told], 3)).keys() == {("pilot", 1, SNOW), ("pilot", 2, FOG)}


def test_shares_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"add up to 1\.1"):
        Mixture(
            components=[
                PARTS[0].model_copy(update={"share": 0.6}),
                PARTS[1].model_copy(update={"share": 0.5}),
            ]
        )
    with pytest.raises(ValueError, match="listed twice"):
        Mixture(components=[PARTS[0], PARTS[0]])
    with pytest.raises(ValueError, match="20 images are too few for 3 prompts"):
        Mixture(images=20, components=PARTS)
    assert Mixture(components=PARTS[:1]).alone == pytest.approx(0.999)
    tenths = [MixtureComponent(prompt=f"a <class> {word}", share=0.1) for word in "abcdefghij"]
    assert Mixture(components=tenths).alone == 0.0


def test_a_mixture_without_a_rest_has_no_label_alone() -> None:
    config = mixed()
    halves = Mixture(images=100, components=[each.model_copy(update={"share": 0.5}) for each in PARTS])
    config = config.model_copy(update={"request": config.request.model_copy(update={"mixture": halves})})
    assert asked(planned(config, BASE, 2)).keys() == {("pilot", 1, SNOW), ("pilot", 2, FOG)}
    assert RecordedHunt.of(BASE).has("baseline")
