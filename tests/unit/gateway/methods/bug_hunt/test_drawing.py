"""When drawing ends: baselines and held-out images under the rules of inverse and sequential sampling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from counterpose_core.bug_hunt.comparison import FailureCounts, above_baseline
from counterpose_core.bug_hunt.pairs import DiscordantPairs
from counterpose_core.bug_hunt.sampling import FixedSampling
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntItem, HuntShares
from counterpose_core.contract.sampling_rules import FixedNumber, SamplingRule, UntilDecided, UntilFailures
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.methods.bug_hunt.summary import summarize
from fakes.hunted_items import caption, hunt_config, hunt_run, sample

INVERSE, SEQUENTIAL = UntilFailures(failures=10), UntilDecided(threshold=0.1)
SHARES = HuntShares(baseline=1000, hypotheses=200, held_out=96)
FLOWERS = HuntInstruction(
    phase="hypothesis", prompt="a photo of a fly among the flowers", hypothesis=1, source="words",
    words="among the flowers", classifiers=["model"],
)  # fmt: skip
SNOW = FLOWERS.model_copy(update={"hypothesis": 2, "prompt": "a photo of a fly in the snow", "words": "snow"})


def config(rule: SamplingRule, winners: int = 2) -> BugHuntConfig:
    return hunt_config(shares=SHARES, sampling=rule, winners=winners)


def drawn(
    failures: int, images: int, told: HuntInstruction | None = None, *, first: int = 0, stage: int = 1
) -> list[HuntItem]:
    """Images at places from ``first`` on, of which the first fail."""
    number = 0 if told is None else 5_000 * (told.hypothesis or 0) + 50_000 * (told.phase == "held-out")
    return [
        sample(
            number + place, "bee" if place < first + failures else "fly", told=told, stage=stage, place=place
        )
        for place in range(first, first + images)
    ]


def held_out(told: HuntInstruction | None, failures: int, images: int, first: int = 0) -> list[HuntItem]:
    base = HuntInstruction(phase="held-out", prompt="a photo of a fly")
    asked = base if told is None else told.model_copy(update={"phase": "held-out"})
    return drawn(failures, images, asked, first=first, stage=5)


def next_phases(
    config: BugHuntConfig, items: Sequence[HuntItem], stage: int = 1
) -> Counter[tuple[str, int | None]]:
    plan = next_stage(hunt_run(config, stage), items)
    told = [] if plan is None else [HuntInstruction.model_validate(each.instruction) for each in plan.items]
    return Counter((each.phase, each.hypothesis) for each in told)


@pytest.mark.paper("BUGS-S4.1-stop")
@pytest.mark.parametrize("rule", [INVERSE, SEQUENTIAL])
def test_the_baseline_goes_on_until_its_rule_is_decided(rule: SamplingRule) -> None:
    assert next_phases(config(rule), drawn(2, 64)) == {("baseline", None): 64}
    assert next_phases(config(rule), [*drawn(2, 64), *drawn(2, 64, first=64, stage=2)], 2) == {
        ("baseline", None): 128
    }
    enough = drawn(20, 64)
    assert set(next_phases(config(rule), enough)) == {("captions", None)}
    assert next_phases(config(FixedNumber()), enough) == {("baseline", None): 936}


def test_a_label_that_surely_fails_less_often_than_the_threshold_is_left_alone() -> None:
    assert next_phases(config(SEQUENTIAL), drawn(0, 128)) == {}
    assert next_phases(config(INVERSE), drawn(0, 128)) == {("baseline", None): 128}


def test_shared_images_are_drawn_until_the_slower_classifier_is_decided() -> None:
    both = config(INVERSE)
    request = both.request.model_copy(update={"classifiers": ["model", "control"]})
    both = both.model_copy(update={"request": request})
    items = [
        sample(n, "bee" if n < 30 else "fly", others={"control": "bee" if n % 32 == 0 else "fly"})
        for n in range(64)
    ]
    assert next_phases(both, items) == {("baseline", None): 64}
    # The model needs no more; the control nearly two hundred.
    more = [
        sample(n, "bee" if n % 2 else "fly", others={"control": "bee" if n % 12 == 0 else "fly"}, place=n)
        for n in range(96)
    ]
    assert next_phases(both, more) == {("baseline", None): 23}
    found = {each.classifier: each.failure for each in summarize(hunt_run(both, 1), items).baselines}
    # The first ten failures of the model are its first ten images.
    assert (found["model"].failures, found["model"].rate.n, found["model"].rate.estimate) == (10, 10, 1.0)
    assert (found["control"].failures, found["control"].rate.n, found["control"].made) == (2, 64, 64)
    assert found["model"].sampling == "inverse"


@pytest.mark.parametrize("rule", [INVERSE, SEQUENTIAL])
def test_held_out_images_come_in_steps_and_end_where_a_winner_is_proven(rule: SamplingRule) -> None:
    asked = config(rule, winners=1)
    items = [*drawn(10, 100), *drawn(50, 200, FLOWERS, stage=4)]
    assert next_phases(asked, items, 4) == {("held-out", None): 32, ("held-out", 1): 32}
    unsure = [*items, *held_out(None, 0, 32), *held_out(FLOWERS, 5, 32)]
    assert next_phases(asked, unsure, 5) == {("held-out", None): 32, ("held-out", 1): 32}
    proven = [*items, *held_out(None, 0, 32), *held_out(FLOWERS, 12, 32)]
    assert next_phases(asked, proven, 5) == {}
    (bug,) = summarize(hunt_run(asked, 5), proven).bugs
    assert (bug.state, bug.held_out.sampling) == ("breaks", rule.name)
    assert bug.held_out.rate.n == (10 if rule is INVERSE else 32)


def test_only_the_winner_that_is_not_settled_gets_more_images_beside_the_label_alone() -> None:
    items = [*drawn(10, 100), *drawn(50, 100, FLOWERS, stage=4), *drawn(50, 100, SNOW, stage=4)]
    seen = [*items, *held_out(None, 0, 32), *held_out(FLOWERS, 12, 32), *held_out(SNOW, 4, 32)]
    assert next_phases(config(SEQUENTIAL), seen, 5) == {("held-out", None): 32, ("held-out", 2): 32}


def test_held_out_images_end_where_nothing_can_be_proven_any_more() -> None:
    items = [*drawn(10, 100), *drawn(50, 200, FLOWERS, stage=4)]
    futile = [*items, *held_out(None, 4, 32), *held_out(FLOWERS, 0, 32)]
    asked = config(SEQUENTIAL, winners=1)
    assert next_phases(asked, futile, 5) == {}
    (bug,) = summarize(hunt_run(asked, 5), futile).bugs
    assert bug.state == "holds"


def test_a_fixed_number_that_is_not_reached_has_an_interval_and_a_test_for_any_stop() -> None:
    items = [*drawn(10, 100), *drawn(50, 200, FLOWERS, stage=4)]
    seen = [*items, *held_out(None, 2, 32), *held_out(FLOWERS, 12, 32)]
    asked = hunt_config(shares=SHARES.model_copy(update={"held_out": 32}), winners=1)
    (whole,) = summarize(hunt_run(asked, 5), seen).bugs
    open_ = [each.model_copy(update={"state": "cancelled", "result": None}) for each in seen[-4:]]
    (cut,) = summarize(hunt_run(asked, 5), [*seen[:-4], *open_]).bugs
    assert cut.held_out.dropped == {"cancelled": 4}
    assert cut.failure_rate == FixedSampling(images=32).rate(12, 28, ended=False)
    assert whole.failure_rate == FixedSampling(images=32).rate(12, 32)
    assert whole.p_adjusted == pytest.approx(above_baseline(FailureCounts(12, 32), FailureCounts(2, 32)))
    assert cut.p_adjusted == pytest.approx(DiscordantPairs(10, 0, 28).p)


def test_held_out_images_of_the_label_alone_are_captioned_to_say_how_much_a_bug_explains() -> None:
    asked = hunt_config(shares=SHARES.model_copy(update={"held_out": 32}), winners=1)
    asked = asked.model_copy(update={"request": asked.request.model_copy(update={"mentions": 20})})
    items = [*drawn(10, 100), *drawn(50, 200, FLOWERS, stage=4)]
    items += [*held_out(None, 2, 32), *held_out(FLOWERS, 24, 32)]
    plan = next_stage(hunt_run(asked, 5), items)
    assert plan is not None
    planned = list(plan.items)
    assert {each.kind for each in planned} == {"caption"}
    # In the order of drawing, failures and successes alike.
    assert [each.slot for each in planned] == list(range(20))
    of = {each.id: each for each in items}
    told = [HuntInstruction.model_validate(each.instruction) for each in planned]
    said = [
        caption(
            of[each.sample or ""], f"a photo of a fly {'among the flowers' if place < 4 else 'in a room'}"
        )
        for place, each in enumerate(told)
    ]
    said = [
        each.model_copy(update={"instruction": one, "stage": 6}) for each, one in zip(said, told, strict=True)
    ]
    assert next_stage(hunt_run(asked, 6), [*items, *said]) is None
    (bug,) = summarize(hunt_run(asked, 6), [*items, *said]).bugs
    assert bug.mentions == FixedSampling(images=20).rate(4, 20)
    assert bug.contribution is not None
    # Of 20 times 32 pairs of places, without the 20 of a place with itself.
    assert bug.contribution.estimate == pytest.approx((4 * 24 - 4) / (20 * 32 - 20))
    (untold,) = summarize(hunt_run(asked, 5), items).bugs
    assert (untold.mentions, untold.contribution) == (None, None)


def test_under_the_rule_of_a_fixed_number_nothing_follows_held_out_images() -> None:
    items = [*drawn(10, 100), *drawn(50, 200, FLOWERS, stage=4)]
    unsure = [*items, *held_out(None, 0, 32), *held_out(FLOWERS, 3, 32)]
    assert next_phases(config(FixedNumber()), unsure, 5) == {}
