"""Falls under two conditions, the claims that are held against them, and the figures of all runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.contract.findings import Finding
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.types import Estimate
from counterpose_miniature.world.scene import VALUES, Scene
from evaluation.tests.fakes.validity import scene
from evaluation.two_stages.replay import Replayed
from evaluation.two_stages.stretch import Folder, Stretch
from evaluation.two_way import truth, validate
from evaluation.two_way.report import ConjunctionReport, TwoWayBugReport, TwoWayRun
from evaluation.two_way.truth import falls
from evaluation.validity.contestants import Contestant
from evaluation.validity.measures import UNKNOWN, Floats
from evaluation.validity.truth import Images, Predict
from fakes.findings import a_confirmation, a_finding
from fakes.sdk import a_summary, figure

MODEL = Contestant("local:model", Path(), ())
BOTH = frozenset({("background", "sand"), ("weather", "rain")})
FLY = VALUES["object_class"].index("fly")


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Scene], float]], list[Scene]]:
    """Set p(fly) of each scene; an image is the scene's number, and the list has all that were rendered."""

    def answer(p: Callable[[Scene], float]) -> list[Scene]:
        shown: list[Scene] = []

        def render(one: Scene) -> Images:
            shown.append(one)
            return np.full((1, 1, 3), len(shown) - 1, dtype=np.uint8)

        def predict(images: Images) -> Floats:
            found = np.zeros((len(images), len(VALUES["object_class"])))
            found[:, FLY] = [p(shown[image[0, 0, 0]]) for image in images]
            return found

        @contextmanager
        def predicting(_: Contestant) -> Iterator[Predict]:
            yield predict

        monkeypatch.setattr(truth, "render", render)
        monkeypatch.setattr(truth, "predicting", predicting)
        return shown

    return answer


def shows(one: Scene) -> tuple[bool, bool]:
    return one.background == "sand", one.weather == "rain"


def test_the_fall_together_is_beyond_the_condition_that_costs_more_on_average(
    answering: Callable[[Callable[[Scene], float]], list[Scene]],
) -> None:
    # Sand costs the first fly more, rain the second; over both, rain costs more.
    p = {
        1: {(False, False): 0.9, (True, False): 0.5, (False, True): 0.7, (True, True): 0.1},
        2: {(False, False): 0.8, (True, False): 0.8, (False, True): 0.3, (True, True): 0.2},
    }
    answering(lambda one: p[one.nuisance][shows(one)])
    flies = [scene("fly", nuisance=1), scene("fly", nuisance=2)]
    together, alone = falls(MODEL, flies, "fly", BOTH)
    assert together == pytest.approx([0.7 - 0.1, 0.3 - 0.2])
    assert alone == pytest.approx([0.9 - 0.7, 0.8 - 0.3])


def test_falls_are_of_the_class_from_scenes_without_either_condition(
    answering: Callable[[Callable[[Scene], float]], list[Scene]],
) -> None:
    shown = answering(lambda one: 0.9 - 0.5 * all(shows(one)))
    sandy = scene("fly", nuisance=1, background="sand", weather="rain", colour="blue")
    together, alone = falls(MODEL, [sandy, scene("boat", nuisance=2)], "fly", BOTH)
    assert together == pytest.approx([0.5])
    assert alone == pytest.approx([0.0])
    assert [shows(one) for one in shown] == [(False, False), (True, False), (False, True), (True, True)]
    assert {(one.object_class, one.nuisance, one.colour) for one in shown} == {("fly", 1, "blue")}


def a_conjunction(*words: str, **changes: object) -> Finding:
    conditions = [{"edit_type": "background", "words": each, "n": 8, "wrong": 0} for each in words]
    known = {
        "state": "breaks",
        "classifier": MODEL.spec,
        "object_class": "fly",
        "confirmed": a_confirmation(),
    }
    return a_finding(**(known | {"conjunction": conditions, "removed": "", "added": ""} | changes))


def claims(findings: Sequence[Finding]) -> list[ConjunctionReport]:
    summary = a_summary(model=figure()).model_copy(update={"findings": list(findings)})
    request = StressTestCreate(dataset="demo", classifiers=[MODEL.spec], seed=0)
    run = Replayed(request, Folder(160), [], summary)
    return list(validate._claims(MODEL, "two-way-1", run, Stretch(7, [scene("fly")])))


@pytest.mark.parametrize(
    ("together", "alone", "is_true"),
    [(0.15, 0.0, True), (0.14, 0.0, False), (0.4, 0.2, True), (0.4, 0.21, False)],
)
def test_a_claim_is_true_if_both_conditions_cost_enough_beyond_either(
    together: float, alone: float, is_true: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[str, object]] = []

    def measured(_: Contestant, __: object, object_class: str, conditions: object) -> tuple[Floats, Floats]:
        held.append((object_class, conditions))
        return np.full(8, together), np.full(8, alone)

    monkeypatch.setattr(truth, "falls", measured)
    shown = a_conjunction("on the sand", "in the rain")
    (claim,) = claims([shown, a_conjunction("on the sand", "in the rain", state="cannot-tell")])
    assert held == [("fly", BOTH)]
    assert (claim.roster, claim.classifier, claim.conditions) == ("two-way-1", MODEL.spec, sorted(BOTH))
    assert (claim.drop_together.estimate, claim.drop_alone.estimate) == pytest.approx((together, alone))
    assert claim.estimate == a_confirmation().loss
    assert claim.is_true is is_true


def test_a_claim_whose_words_name_fewer_than_two_conditions_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(truth, "falls")
    (claim,) = claims([a_conjunction("on the sand", "broken")])
    assert (claim.is_true, claim.drop_together, claim.conditions) == (
        False,
        UNKNOWN,
        [("background", "sand")],
    )


def a_bug(
    name: str, *, planted: bool = True, met: bool = True, tried: bool = True, named: bool = True
) -> TwoWayBugReport:
    return TwoWayBugReport(
        classifier=name,
        bug="bug",
        object_class="fly",
        conditions=sorted(BOTH),
        drop_together=UNKNOWN,
        drop_alone=UNKNOWN,
        is_planted=planted,
        met=met,
        proposed=tried,
        named=named,
    )


def a_claim(roster: str, classifier: str, *, is_true: bool) -> ConjunctionReport:
    return ConjunctionReport(
        roster=roster,
        classifier=classifier,
        object_class="fly",
        conditions=sorted(BOTH),
        estimate=UNKNOWN,
        drop_together=UNKNOWN,
        drop_alone=UNKNOWN,
        is_true=is_true,
    )


def a_run(roster: str, kind: str, false: int) -> TwoWayRun:
    return TwoWayRun(
        roster=roster, size=160, classifiers=4, kind=kind, items=900, tested=5, proven=3, false=false
    )


def of(estimate: Estimate) -> tuple[float | None, int]:
    return estimate.estimate, estimate.n


def test_the_figures_count_planted_bugs_that_were_met_and_false_claims_of_other_runs() -> None:
    bugs = [
        a_bug("a"),
        a_bug("b", named=False),
        a_bug("c", named=False, tried=False),
        a_bug("d", named=True, met=False),
        a_bug("e", planted=False, named=False),
    ]
    runs = [a_run("two-way-1", "two-way", 1), a_run("others-1", "others", 2), a_run("others-2", "others", 0)]
    made = [
        a_claim("two-way-1", "a", is_true=True),
        a_claim("two-way-1", "b", is_true=False),
        a_claim("others-1", "x", is_true=False),
        a_claim("others-1", "x", is_true=False),
    ]
    found = validate._figures(7, 4, runs, bugs, made)
    assert (found.taught, found.planted) == (5, 4)
    assert of(found.met) == (3 / 4, 4)
    assert of(found.proposed_of_met) == (2 / 3, 3)
    assert of(found.named_of_met) == (1 / 3, 3)
    assert of(found.precision) == (1 / 4, 4)
    assert of(found.false_runs) == (1 / 2, 2)
    # Two false claims of one classifier are one; the runs with bugs of two conditions are another matter.
    assert of(found.false_classifiers) == (1 / 8, 8)
    assert (found.runs, found.bugs, found.conjunctions) == (runs, bugs, made)
