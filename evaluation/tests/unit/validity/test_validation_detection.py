"""Detection of planted bugs: recall, false alarms, controls and chance level."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from counterpose_core.contract.stress_tests import Insight
from evaluation.tests.fakes.validity import BOAT_BY_ITS_WATER, change, contestant, insight, scene, truth
from evaluation.validity.detection import (
    Chance,
    Trial,
    bug_reports,
    chances,
    detection,
    found_chances,
    recall_when_permuted,
)
from evaluation.validity.report import Detection
from evaluation.validity.truth import COLUMNS, Truth

SOURCES = [scene(nuisance=number) for number in range(30)]
LEANING = truth(SOURCES, {("background", "water"): 0.9}, otherwise=0.3)
STEADY = Truth(SOURCES, 0.9 + 0.01 * np.random.default_rng(1).normal(size=(30, len(COLUMNS))))
LEANING_ON_WATER = truth(SOURCES, {("background", value): 0.3 for value in ("grass", "sand", "snow")})


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def trial(*insights: Insight, seed: int = 0, truths: Mapping[str, Truth] | None = None) -> Trial:
    known = truths or {"model": LEANING_ON_WATER}
    edits = [change(number, drops=dict.fromkeys(known, 0.5)) for number in range(30)]
    return Trial(seed, insights, edits, known)


def planted(drop: float = 0.6, *, classifier: str = "model", seed: int = 0) -> Chance:
    return Chance(seed, classifier, BOAT_BY_ITS_WATER, drop)


def figures(chances: list[Chance], trials: list[Trial], controls: tuple[str, ...] = ()) -> Detection:
    return detection(chances, trials, controls, rng())[0]


def test_a_taught_bug_is_reported_with_its_true_drop() -> None:
    found = bug_reports([contestant("model", BOAT_BY_ITS_WATER)], {"model": LEANING}, rng())
    assert [(one.classifier, one.id, one.planted) for one in found] == [
        ("model", "boat-leans-on-water", True)
    ]
    assert found[0].true_drop.estimate == pytest.approx(0.6)


def test_a_taught_bug_invisible_in_renderings_is_not_counted_for_recall() -> None:
    found = bug_reports([contestant("model", BOAT_BY_ITS_WATER)], {"model": STEADY}, rng())
    assert chances(found, [0]) == []


def test_each_seed_counts_separately_for_recall() -> None:
    found = bug_reports([contestant("model", BOAT_BY_ITS_WATER)], {"model": LEANING}, rng())
    assert [one.name for one in chances(found, [0, 3])] == [
        "model/boat-leans-on-water@0",
        "model/boat-leans-on-water@3",
    ]


def test_a_bug_is_found_only_by_insights_of_its_classifier_and_test() -> None:
    mine, others, later = planted(), planted(classifier="other"), planted(seed=1)
    trials = [trial(insight()), trial(seed=1)]
    assert found_chances([mine, others, later], trials) == [mine]


def test_bugs_of_one_classifier_are_not_independent_trials() -> None:
    several = [planted(classifier=name) for name in ("one", "two", "three", "four") for _ in range(10)]
    truths = {"one": LEANING_ON_WATER, "two": LEANING_ON_WATER}
    found = figures(several, [trial(*(insight(classifier=name) for name in truths), truths=truths)])
    assert (found.recall.estimate, found.recall.n) == (0.5, 40)
    assert found.recall.low is not None
    assert found.recall.low < 0.2


def test_recall_reports_strong_bugs_separately() -> None:
    found = figures([planted(0.6), planted(0.2, classifier="other")], [trial(insight())])
    assert (found.recall_of_strong.estimate, found.recall_of_strong.n) == (1.0, 1)
    assert (found.recall.estimate, found.recall.n) == (0.5, 2)
    assert {name: one.n for name, one in found.recall_by_true_drop.items()} == {
        "0.15-0.3": 1,
        "0.3-0.5": 0,
        "0.5-1": 1,
    }


def test_an_insight_without_a_true_drop_is_a_false_alarm() -> None:
    found = figures([], [trial(insight(), truths={"model": STEADY})])
    assert [one.verdict for one in found.findings] == ["false-alarm"]
    assert found.precision.estimate == 0.0


def test_an_insight_with_a_true_but_unplanted_drop_is_correct() -> None:
    found = figures([], [trial(insight())])
    assert [(one.verdict, one.bugs) for one in found.findings] == [("true", [])]
    assert found.findings[0].true_drop.estimate == pytest.approx(0.6)
    assert found.findings[0].estimated_drop.estimate == pytest.approx(0.6)


def test_an_insight_without_kept_edits_is_undecided() -> None:
    found = figures([], [trial(insight("on the grass", ""))])
    assert [one.verdict for one in found.findings] == ["undecided"]


def test_each_control_is_counted_once_whatever_its_number_of_false_alarms() -> None:
    insights = [
        insight(classifier="calm"),
        insight(classifier="alarmed"),
        insight("", "on the grass", classifier="alarmed"),
    ]
    truths = {"calm": LEANING_ON_WATER, "alarmed": STEADY}
    found = figures([], [trial(*insights, truths=truths)], controls=("calm", "alarmed", "silent"))
    assert found.controls_with_a_false_alarm.estimate == pytest.approx(1 / 3)
    assert found.controls_with_a_false_alarm.n == 3
    assert (found.classifiers_with_a_false_alarm.estimate, found.classifiers_with_a_false_alarm.n) == (0.5, 2)


def test_class_specific_insights_are_not_found_after_permuting_classes() -> None:
    found = recall_when_permuted([planted()], [trial(insight())], rng(), draws=50)
    assert (found.estimate, found.n) == (0.0, 1)


def test_class_independent_insights_are_found_after_permuting_classes() -> None:
    classes = ("plate", "sled", "boat", "kite", "fly", "bee", "bus", "tram")
    everywhere = [insight(object_class=name) for name in classes]
    found = recall_when_permuted([planted()], [trial(*everywhere)], rng(), draws=50)
    assert found.estimate == 1.0
