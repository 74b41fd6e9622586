"""When drawing ends: baselines and held-out images under the rules of inverse and sequential sampling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from fakes.hunted_items import hunt_config, hunt_run, sample
from faultline_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntItem, HuntShares
from faultline_core.contract.sampling_rules import FixedNumber, SamplingRule, UntilDecided, UntilFailures
from faultline_gateway.methods.bug_hunt.stages import next_stage
from faultline_gateway.methods.bug_hunt.summary import summarize

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


def test_under_the_rule_of_a_fixed_number_nothing_follows_held_out_images() -> None:
    items = [*drawn(10, 100), *drawn(50, 200, FLOWERS, stage=4)]
    unsure = [*items, *held_out(None, 0, 32), *held_out(FLOWERS, 3, 32)]
    assert next_phases(config(FixedNumber()), unsure, 5) == {}
