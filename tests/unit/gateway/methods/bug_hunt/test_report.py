"""What a report of a hunt shows beside its rates: evidence, mistakes, the search, and both rates of a bug."""

from __future__ import annotations

import pytest

from counterpose_core.contract.bug_hunt_summary import BugHuntSummary, EditedCaptions
from counterpose_core.contract.bug_hunts import HuntInstruction, HuntItem
from counterpose_core.contract.spending import Spending, Spent
from counterpose_core.errors import ArtifactMissing
from counterpose_gateway.methods.bug_hunt.report import render, winners_curse
from counterpose_gateway.methods.bug_hunt.summary import summarize
from fakes.hunted_items import hunt_config, hunt_run, sample
from fakes.pages import text_of

FLOWERS = HuntInstruction(
    phase="hypothesis", prompt="a photo of a fly among the flowers", hypothesis=1, source="words",
    words="among the flowers", classifiers=["model"],
)  # fmt: skip
DOG = FLOWERS.model_copy(
    update={"prompt": "a photo of a fly next to a dog", "hypothesis": 2, "words": "next to a dog"}
)
RUN = hunt_run(hunt_config(), 6)


def samples(first: int, answers: dict[str, int], told: HuntInstruction, stage: int) -> list[HuntItem]:
    spoken = [answer for answer, number in answers.items() for _ in range(number)]
    return [
        sample(first + place, answer, told=told, stage=stage, seconds=0.5)
        for place, answer in enumerate(spoken)
    ]


@pytest.fixture(scope="module")
def hunt() -> BugHuntSummary:
    """A hunt with one bug, whose control answers half of its images rightly; CLIP sees all but ten."""
    base = [
        sample(n, "bee" if n < 10 else "fly", others={"control": "fly"}, similarity=0.3) for n in range(100)
    ]
    held_out = FLOWERS.model_copy(update={"phase": "held-out"})
    alone = HuntInstruction(phase="held-out", prompt="a photo of a fly")
    found = [
        sample(
            3000 + n, "bee" if n < 50 else "bus" if n < 56 else "fly", told=held_out, stage=5,
            others={"control": "fly" if n % 2 else "bee"}, similarity=0.1 if n < 10 else 0.3, seconds=0.5,
        )
        for n in range(64)
    ]  # fmt: skip
    items = [
        *base, *samples(1000, {"bee": 60, "fly": 0}, FLOWERS, 3), *samples(2000, {"fly": 20}, DOG, 3),
        *found, *samples(4000, {"bee": 1, "tram": 1, "fly": 62}, alone, 5),
    ]  # fmt: skip
    return summarize(RUN, items)


@pytest.mark.paper("BUGS-F2-confusions")
def test_mistakes_are_counted_before_and_after_the_description(hunt: BugHuntSummary) -> None:
    (bug,) = hunt.bugs
    told = [(each.answer, each.described, each.baseline) for each in bug.confusions]
    # Five of the bees show no fly to CLIP nor to the control.
    assert told == [("bee", 45, 1), ("bus", 6, 0), ("tram", 0, 1)]


def test_failures_are_told_with_what_clip_and_the_control_see(hunt: BugHuntSummary) -> None:
    (bug,) = hunt.bugs
    told = bug.held_out.evidence
    assert told is not None
    assert (told.wrong, told.shown, told.by_clip) == (56, 51, 46)
    assert told.recognised == {"control": 28}
    assert (told.rate_of_all.n, bug.held_out.rate.n) == (64, 59)
    assert told.rate_of_all.estimate == pytest.approx(56 / 64)
    steady = samples(0, {"fly": 30}, DOG, 3)
    assert summarize(RUN, steady).baselines[0].failure.evidence is None


def test_the_search_is_a_tree_from_the_label_to_held_out_images(hunt: BugHuntSummary) -> None:
    told = [(each.number, each.parent, each.kind, each.failure.failures, each.outcome) for each in hunt.tree]
    assert told == [
        (0, None, "baseline", 10, "the label alone"),
        (1, 0, "description", 60, "winner"),
        (2, 1, "held-out", 51, "breaks"),
        (3, 0, "description", 0, "stopped"),
    ]
    assert [len(each.images) for each in hunt.tree] == [6, 6, 6, 0]
    assert [each.seconds for each in hunt.tree] == [0.0, 30.0, 32.0, 10.0]


def test_a_winner_s_discovery_rate_stands_beside_its_held_out_rate(hunt: BugHuntSummary) -> None:
    curse = winners_curse(hunt.bugs)
    assert curse is not None
    assert curse.sentence == "the held-out rate of 1 description is 13.6 points lower"
    assert curse.plot.series == ["discovery", "held out", "the label alone"]
    assert winners_curse([]) is None


def test_the_report_shows_all_of_it_without_images_too(hunt: BugHuntSummary) -> None:
    def missing(ref: str) -> bytes:
        raise ArtifactMissing(f"no artifact {ref!r}")

    text = render(hunt, RUN, missing)
    order = [
        text.index(each)
        for each in ("What they are taken for", 'id="winners-curse"', 'id="baselines"', 'class="tree"')
    ]
    assert order == sorted(order)
    assert "of 56 wrong answers, 51 show the label, 46 of them to CLIP, 28 to control" in text
    assert "45<small>1 before</small>" in text
    assert '<i style="width:76.3%"></i><u style="width:1.6%"></u>' in text
    assert text.count('<li class="') == 4
    assert "image not available" in text
    assert "Times the baseline: 27.7 (8.0 to 100.7)." in text


def test_a_hunt_that_asked_servers_has_its_account(hunt: BugHuntSummary) -> None:
    def missing(ref: str) -> bytes:
        raise ArtifactMissing(f"no artifact {ref!r}")

    spending = Spending(services={"editor": Spent(calls=3, images=3)}, unpriced=["m"])
    text = text_of(render(hunt.model_copy(update={"spending": spending}), RUN, missing))
    assert "servers of others: 3 calls, 3 images" in text
    assert "no price for 'm'" in text


def test_what_a_user_s_images_surely_reach_stands_below_the_rate_of_the_generator(
    hunt: BugHuntSummary,
) -> None:
    def missing(ref: str) -> bytes:
        raise ArtifactMissing(f"no artifact {ref!r}")

    (bug,) = hunt.bugs
    assert bug.at_least is None
    assert "your own images" not in render(hunt, RUN, missing)
    measured = hunt.model_copy(update={"bugs": [bug.model_copy(update={"at_least": 0.417})]})
    text = render(measured, RUN, missing)
    _, row = text.split("held out<small>images of this generator</small>")
    row = row.split("held out, the label alone")[0]
    assert "your own images<small>95 % sure, in a world like the suite's</small>" in row
    assert row.count("at least 41.7 %") == 1


def test_images_without_a_caption_of_their_own_are_told_in_the_report(hunt: BugHuntSummary) -> None:
    def missing(ref: str) -> bytes:
        raise ArtifactMissing(f"no artifact {ref!r}")

    (bug,) = hunt.bugs
    edited = EditedCaptions(
        label="fly",
        classifier="model",
        captions=40,
        lacking=8,
        dropped={},
        failure=bug.held_out,
        taken_for={},
    )
    text = render(hunt.model_copy(update={"edited": [edited]}), RUN, missing)
    told = "for 8 more images there was no other caption"
    assert f'<td class="number">40<small class="wrap">{told}</small></td>' in text
    whole = hunt.model_copy(update={"edited": [edited.model_copy(update={"lacking": 0})]})
    assert "no other caption" not in render(whole, RUN, missing)


def test_a_verdict_says_that_what_is_more_are_bugs_and_not_images_of_the_label() -> None:
    alone = HuntInstruction(phase="held-out", prompt="a photo of a fly")
    items = [sample(n, "bee" if n < 10 else "fly") for n in range(100)]
    items += samples(1000, {"bee": 60}, FLOWERS, 3) + samples(2000, {"bee": 60}, DOG, 3)
    items += samples(4000, {"bee": 1, "fly": 63}, alone, 5)
    for first, told in ((3000, FLOWERS), (5000, DOG)):
        items += samples(first, {"bee": 60, "fly": 4}, told.model_copy(update={"phase": "held-out"}), 5)
    assert summarize(RUN, items).verdict.endswith("(1 of 64 of the label alone); 1 more bug is proven")
