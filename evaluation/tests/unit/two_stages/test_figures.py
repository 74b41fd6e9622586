"""The figures count runs of one size and kind, and say what falls short."""

from __future__ import annotations

import json

import numpy as np
import pytest

from counterpose_core.types import Estimate
from evaluation.paths import RESULTS
from evaluation.two_stages.coverage import coverage_of
from evaluation.two_stages.figures import Counted, aims_of, figures_of
from evaluation.two_stages.report import (
    ChanceReport,
    ClaimReport,
    ControlReport,
    Fate,
    FindingsValidity,
    RunReport,
)
from evaluation.validity.measures import UNKNOWN

SCHEMA = RESULTS / "findings-validity.schema.json"


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def about(value: float, n: int = 8) -> Estimate:
    return Estimate(estimate=value, low=value - 0.1, high=value + 0.1, n=n)


def a_run(size: int = 48, stages: str = "two") -> RunReport:
    return RunReport.model_validate(
        {
            "roster": "suite", "size": size, "part": 0, "stages": stages, "reason": None, "items": 336,
            "made": 300, "evaluations": 9000, "service_seconds": 60.0, "hypotheses": 4, "confirmed": 1,
            "suspected": 0,
        }
    )  # fmt: skip


def a_claim(estimated: float = 0.6, true: float = 0.58, **changes: object) -> ClaimReport:
    known: dict[str, object] = {
        "roster": "suite", "size": 48, "part": 0, "stages": "two", "state": "breaks", "scope": "class",
        "classifier": "model", "control": False, "object_class": "boat", "edit_type": "background",
        "removed": "on the water", "added": "", "pairs": 8, "sources": 8, "estimate": about(estimated),
        "stopped": False, "true_on_images": about(true), "true_on_class": about(true), "bugs": [],
        "verdict": "true",
    }  # fmt: skip
    return ClaimReport.model_validate({**known, **changes})


def a_chance(fate: Fate, size: int = 48) -> ChanceReport:
    return ChanceReport(
        roster="suite",
        size=size,
        part=0,
        stages="two",
        classifier="model",
        bug="bug",
        true_drop=0.6,
        fate=fate,
    )


def a_control(breaks: int = 0, false: int = 0) -> ControlReport:
    return ControlReport(
        roster="suite", size=48, part=0, stages="two", classifier="control", breaks=breaks, false_alarms=false
    )


COUNTED = Counted(
    [a_run(), a_run(96), a_run(stages="one")],
    [a_claim(), a_claim(0.6, 0.5, verdict="false-alarm"), a_claim(state="suspected"), a_claim(size=96)],
    [a_chance("found"), a_chance("no-caption"), a_chance("found", 96)],
    [a_control(), a_control(2, 1)],
)


def test_recall_and_fates_are_of_one_size() -> None:
    found = figures_of(COUNTED.of("two", 48), rng())
    assert (found.runs, found.recall.estimate, found.recall.n) == (1, 0.5, 2)
    assert found.fates == {"found": 1, "no-caption": 1}
    assert figures_of(COUNTED.of("two", 96), rng()).recall.estimate == 1.0


def test_only_findings_that_break_count_for_precision_and_bias() -> None:
    found = figures_of(COUNTED.of("two", 48), rng())
    assert (found.precision.estimate, found.precision.n) == (0.5, 2)
    assert found.bias.estimate == pytest.approx((0.02 + 0.1) / 2)
    assert (found.suspected_true.estimate, found.suspected_true.n) == (1.0, 1)


def test_a_finding_counts_by_its_words_beside_its_edits() -> None:
    claims = [
        a_claim(verdict_by_words="true", bugs=["model/bug@4"]),
        a_claim(verdict_by_words="false-alarm", bugs=["model/bug@4"]),
        a_claim(verdict_by_words="false-alarm"),
        a_claim(state="suspected", verdict_by_words="false-alarm"),
        a_claim(),
    ]
    found = figures_of(Counted([a_run()], claims, [a_chance("found")], []), rng())
    assert (found.precision.estimate, found.precision.n) == (1.0, 4)
    assert found.precision_by_words is not None
    # What was not judged is not counted.
    assert found.precision_by_words.n == 3
    assert found.precision_by_words.estimate == pytest.approx(1 / 3)


def test_a_bug_is_found_by_words_if_a_finding_of_its_run_names_it_and_says_what_hurts() -> None:
    chances = [a_chance("found"), a_chance("found", 96), a_chance("no-edit")]
    chances[2] = chances[2].model_copy(update={"bug": "another"})
    claims = [
        a_claim(verdict_by_words="true", bugs=["model/bug@4"]),
        a_claim(size=96, verdict_by_words="false-alarm", bugs=["model/bug@4"]),
        a_claim(verdict_by_words="true", state="suspected", bugs=["model/another@4"]),
    ]
    found = figures_of(Counted([a_run(), a_run(96)], claims, chances, []), rng())
    assert found.recall.estimate == pytest.approx(2 / 3)
    assert found.recall_by_words is not None
    assert found.recall_by_words.n == 3
    assert found.recall_by_words.estimate == pytest.approx(1 / 3)


def test_a_run_costs_its_evaluations_until_its_true_findings_are_proven() -> None:
    counted = Counted(
        [a_run(), a_run(96), a_run(stages="one")],
        [a_claim(), a_claim(), a_claim(verdict="false-alarm"), a_claim(state="suspected"), a_claim(size=96)],
        [a_chance("found"), a_chance("no-caption", 96)],
        [a_control()],
    )
    one = figures_of(counted.of("two", 48), rng()).evaluations_per_proof
    assert one is not None
    assert (one.estimate, one.n) == (4500.0, 2)
    # Two findings may be anything from 0.24 to 7.2 of a Poisson distribution.
    assert one.low == pytest.approx(9000 / 7.22, rel=0.01)
    assert one.high == pytest.approx(9000 / 0.2422, rel=0.01)
    both = figures_of(counted.of("two"), rng()).evaluations_per_proof
    assert both is not None
    assert (both.estimate, both.n) == (6000.0, 3)


def test_runs_that_have_nothing_to_find_cost_no_proof() -> None:
    nothing = figures_of(Counted([a_run()], [], [], [a_control()]), rng()).evaluations_per_proof
    assert nothing is not None
    assert (nothing.estimate, nothing.n) == (None, 0)
    missed = Counted([a_run()], [], [a_chance("gate")], [])
    assert figures_of(missed, rng()).evaluations_per_proof == nothing


def test_a_control_in_a_run_is_one_trial() -> None:
    found = figures_of(COUNTED.of("two", 48), rng())
    assert (found.controls_with_a_finding.estimate, found.controls_with_a_finding.n) == (0.5, 2)
    assert found.controls_with_a_false_alarm.estimate == 0.5


def test_an_aim_that_is_missed_says_so() -> None:
    aims = {aim.name: aim.met for aim in aims_of(COUNTED, rng())}
    assert aims["recall at 48 images"] is True
    assert aims["precision of findings that break"] is False
    assert aims["bias of confirmed losses on their images"] is False


def test_words_have_an_aim_of_their_own() -> None:
    claims = [a_claim(verdict_by_words="true"), a_claim(verdict_by_words="false-alarm")]
    aims = {aim.name: aim.met for aim in aims_of(Counted([a_run()], claims, [], []), rng())}
    assert aims["precision of findings that break"] is True
    assert aims["precision of findings that break, by their words"] is False
    unjudged = {aim.name: aim.met for aim in aims_of(Counted([a_run()], [a_claim()], [], []), rng())}
    assert unjudged["precision of findings that break, by their words"] is None


def test_an_interval_is_counted_beside_its_verdict() -> None:
    claims = [
        a_claim(0.6, 0.58),
        a_claim(0.6, 0.4, classifier="other"),
        a_claim(0.1, 0.1, state="cannot-tell"),
        a_claim(0.0, 0.0, state="holds"),
    ]
    found = coverage_of(claims, rng())
    assert {state: (one.estimate, one.n) for state, one in found.by_state.items()} == {
        "breaks": (0.5, 2),
        "cannot-tell": (1.0, 1),
        "holds": (1.0, 1),
    }
    assert (found.all.estimate, found.all.n) == (0.75, 4)
    assert found.left_out == {}


def test_the_ends_of_an_interval_belong_to_it() -> None:
    interval = Estimate(estimate=0.5, low=0.25, high=0.75, n=8)
    for true, holds in [(0.25, 1.0), (0.75, 1.0), (0.24, 0.0), (0.76, 0.0)]:
        assert coverage_of([a_claim(true=true, estimate=interval)], rng()).all.estimate == holds


@pytest.mark.parametrize(("scope", "holds"), [("class", 0.0), ("images", 1.0)])
def test_an_interval_is_held_against_what_it_speaks_of(scope: str, holds: float) -> None:
    claim = a_claim(0.6, scope=scope, true_on_images=about(0.6), true_on_class=about(0.2))
    assert coverage_of([claim], rng()).all.estimate == holds


def test_what_has_no_interval_or_no_truth_is_left_out_with_its_reason() -> None:
    claims = [
        a_claim(),
        a_claim(state="suspected"),
        a_claim(conjunction=True),
        a_claim(conjunction=True, estimate=UNKNOWN),
        a_claim(state="cannot-tell", estimate=UNKNOWN),
        a_claim(true_on_class=UNKNOWN),
    ]
    found = coverage_of(claims, rng())
    assert found.all.n == 1
    assert found.left_out == {"no-interval": 1, "no-truth": 1, "not-tested": 1, "two-conditions": 2}


def test_figures_of_nothing_are_unknown() -> None:
    found = figures_of(Counted([], [], [], []), rng())
    assert (found.recall.estimate, found.precision.n, found.bias.n) == (None, 0, 0)


def test_the_checked_in_schema_matches_the_report_model() -> None:
    schema = FindingsValidity.model_json_schema(mode="serialization")
    written = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert written == schema, f"write json.dumps(schema, indent=2) to {SCHEMA.name}"


def test_the_checked_in_results_satisfy_the_report_model() -> None:
    written = RESULTS / "findings-validity.json"
    if not written.exists():
        pytest.skip("no study was checked in yet")
    FindingsValidity.model_validate_json(written.read_bytes())
