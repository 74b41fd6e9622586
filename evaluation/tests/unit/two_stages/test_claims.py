"""Findings compared with rendered truth: on their own images, on their class, and by their words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.types import Estimate
from evaluation.tests.fakes.validity import BOAT_BY_ITS_WATER, change, insight, scene, truth
from evaluation.two_stages.claims import (
    Claim,
    claim_reports,
    claims_of,
    true_by_words,
    true_on_class,
    true_on_images,
)
from evaluation.two_stages.replay import Replayed
from evaluation.two_stages.stretch import Folder
from evaluation.two_way.conditions import Conditions, JointTruth
from evaluation.validity.changes import Change
from evaluation.validity.detection import Chance, verdict_of
from evaluation.validity.matching import Told
from evaluation.validity.measures import UNKNOWN
from fakes.findings import a_confirmation, a_finding
from fakes.sdk import a_summary, figure

LOSS = Estimate(estimate=0.6, low=0.5, high=0.7, n=4)
CHANCE = Chance(0, "model", BOAT_BY_ITS_WATER, 0.6)
SCENES = [scene(nuisance=number) for number in range(4)] + [scene(nuisance=9, background="snow")]
TRUTH = truth(SCENES, {("background", "sand"): 0.7, ("background", "snow"): 0.1})


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def narrow(mean: float) -> Estimate:
    return Estimate(estimate=mean, low=mean - 0.02, high=mean + 0.02, n=50)


def claim(edits: Sequence[Change], removed: str = "on the water", added: str = "") -> Claim:
    return Claim(insight(removed, added), "breaks", LOSS, edits, len(edits))


def test_the_truth_of_its_images_weighs_each_source_once() -> None:
    edits = [
        change(0, added="sand"),
        change(0, added="sand"),
        change(0, added="sand"),
        change(1, added="snow"),
    ]
    found = true_on_images(claim(edits), TRUTH, rng())
    # 0.9 on the water, as everywhere but on sand and snow.
    assert found.estimate == pytest.approx((0.2 + 0.8) / 2)
    assert found.n == 2


def test_the_truth_of_the_class_asks_all_images_that_the_change_applies_to() -> None:
    found = true_on_class(claim([change(0, added="sand")]), TRUTH, rng())
    assert found.estimate == pytest.approx(0.2)
    # The boat in the snow is on no water to take away.
    assert found.n == 4


def test_what_a_sentence_says_is_judged_by_its_words_and_not_by_its_edits() -> None:
    scenes = [scene(nuisance=number, companion="ball") for number in range(3)]
    world = truth(scenes, {("companion", "person"): 0.1, ("companion", "none"): 0.9})
    edits = [change(number, attribute="companion", removed="ball", added="person") for number in range(3)]
    gone = claim(edits, removed="next to a ball")
    # Persons hurt; a ball that is gone, as the sentence says, does not.
    assert true_on_class(gone, world, rng()).estimate == pytest.approx(0.8)
    assert true_by_words(gone, world, rng()).estimate == pytest.approx(0.0)
    replaced = claim(edits, removed="ball", added="person")
    assert true_by_words(replaced, world, rng()).estimate == pytest.approx(0.8)


def test_a_finding_without_a_change_of_one_attribute_has_no_truth() -> None:
    assert true_on_images(claim([]), TRUTH, rng()).n == 0
    assert true_on_class(claim([]), TRUTH, rng()).estimate is None


def test_a_bug_is_named_by_words_and_shown_by_images() -> None:
    said = claim([change(0, added="sand")])
    unsaid = claim([change(0, added="sand"), change(1, added="snow")], removed="", added="on the sand")
    elsewhere = claim([change(0, removed="grass", added="sand")], removed="", added="on the sand")
    assert (said.names(CHANCE), said.shows(CHANCE)) == (True, True)
    assert (unsaid.names(CHANCE), unsaid.shows(CHANCE)) == (False, True)
    assert (elsewhere.names(CHANCE), elsewhere.shows(CHANCE)) == (False, False)


@pytest.mark.parametrize(
    ("together", "alone", "verdict"),
    [(0.6, 0.1, "true"), (0.6, 0.5, "undecided"), (0.0, 0.0, "false-alarm"), (None, None, "undecided")],
)
def test_a_finding_of_two_conditions_is_judged_by_both_together(
    together: float | None, alone: float | None, verdict: str
) -> None:
    conditions = [
        {"edit_type": "background", "words": words, "n": 8, "wrong": 0}
        for words in ("on the sand", "in the rain")
    ]
    test = a_confirmation()
    findings = [
        a_finding(state="breaks", confirmed=test),
        a_finding(state="breaks", confirmed=test, removed="", added="", conjunction=conditions),
    ]
    summary = a_summary(leaning=figure()).model_copy(update={"findings": findings})
    request = StressTestCreate(dataset="demo", classifiers=["leaning"], seed=0, confirm=True)
    run = Replayed(request, Folder(48), [], summary)
    asked = list[Conditions]()

    def joint(_: Told, conditions: Conditions) -> JointTruth:
        asked.append(conditions)
        return JointTruth(*(UNKNOWN if fall is None else narrow(fall) for fall in (together, alone)))

    truths = {"leaning": TRUTH}
    single, double = claim_reports(run, "suite", claims_of(run, {}), truths, joint, [], [], rng())
    assert (single.conjunction, double.conjunction) == (False, True)
    assert (double.verdict, double.verdict_by_words) == (verdict, verdict)
    assert double.true_by_words is not None
    assert double.true_by_words.estimate == together
    # The other is judged by its edits, of which it has none.
    assert single.verdict == "undecided"
    assert asked == [frozenset({("background", "sand"), ("weather", "rain")})]


def test_a_harmless_change_is_a_false_alarm_unless_it_names_a_bug() -> None:
    harmless = Estimate(estimate=0.0, low=-0.02, high=0.02, n=50)
    assert verdict_of(harmless, []) == "false-alarm"
    assert verdict_of(Estimate(estimate=0.2, low=0.1, high=0.3, n=50), []) == "true"
    assert verdict_of(Estimate(estimate=0.06, low=0.0, high=0.1, n=50), []) == "undecided"
