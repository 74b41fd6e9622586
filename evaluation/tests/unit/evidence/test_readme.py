"""The few figures of the README are those of the result files."""

from __future__ import annotations

import pytest

from counterpose_core.types import Estimate
from evaluation.evidence.conjunctions import CONJUNCTIONS
from evaluation.evidence.hunts import HUNTS, headline_coverage
from evaluation.evidence.markdown import figure
from evaluation.evidence.validity import VALIDITY
from evaluation.hunt_validity.report import HuntValidity
from evaluation.paths import RESULTS, ROOT
from evaluation.two_stages.report import FindingsValidity
from evaluation.two_way.report import TwoWayRecord
from evaluation.validity.report import Agreement, Validity

README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = FindingsValidity.model_validate_json(
    (RESULTS / "findings-validity.json").read_text(encoding="utf-8")
)
FINDINGS = {size: figures["two"] for size, figures in MEASURED.figures.items()}
BY_WORDS = FINDINGS["all"].precision_by_words
HUNTED = HuntValidity.model_validate_json(HUNTS.read_text(encoding="utf-8"))
QUICK = Validity.model_validate_json(VALIDITY.read_text(encoding="utf-8")).presets["quick"]

TOOL = QUICK.agreement["counterpose"]
assert isinstance(TOOL, Agreement)


@pytest.mark.parametrize(
    ("row", "measured"),
    [
        (
            "planted bugs proven in a folder of 48 images, of those with a true drop of 0.3 or more",
            FINDINGS["48"].recall,
        ),
        ("planted bugs proven in a folder of 96 images", FINDINGS["96"].recall),
        # The words are what a user reads; a file from before they were judged has the edits alone.
        ("proven findings that are true", FINDINGS["all"].precision)
        if BY_WORDS is None
        else ("proven findings whose words are true", BY_WORDS),
        (
            f"planted bugs that a hunt of {HUNTED.setting.request['budget']['images']} images finds from the"
            " label alone, of those with a true failure rate of 0.3 or more",
            HUNTED.figures.recall_of_strong,
        ),
        ("rank correlation of estimated and true drops", TOOL.spearman),
    ],
)
def test_a_row_of_the_readme_is_current(row: str, measured: Estimate) -> None:
    assert f"| {row} | {figure(measured, 2)} | {measured.n:,}" in README


def test_the_row_of_hunts_tells_precision_and_the_coverage_of_the_headline() -> None:
    figures = HUNTED.figures
    told = figures.precision, figures.drawn_covered, headline_coverage(figures)
    row = "findings of hunts that are true; intervals that hold the rate of further images, and of rendered"
    rates, counts = "; ".join(figure(each, 2) for each in told), "; ".join(str(each.n) for each in told)
    assert f"| {row} scenes | {rates} | {counts} |" in README


def test_the_row_of_two_conditions_tells_those_of_the_fewest_classifiers_a_run() -> None:
    found = TwoWayRecord.model_validate_json(CONJUNCTIONS.read_bytes()).figures[0]
    assert {run.size for run in found.runs} == {160}
    named, true = found.named_of_met, found.precision
    row = "two-condition bugs that runs of two classifiers name, of those met; such findings that are true"
    assert f"| {row} | {figure(named, 2)}; {figure(true, 2)} | {named.n}; {true.n} |" in README


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("runs of an unbiased classifier with a finding", FINDINGS["all"].controls_with_a_finding),
        (
            "hunts on classifiers without a planted bug with a finding",
            HUNTED.figures.control_hunts_with_a_finding,
        ),
    ],
)
def test_the_readme_counts_the_findings_of_the_unbiased_classifiers(row: str, found: Estimate) -> None:
    assert found.estimate is not None
    assert f"| {row} | {round(found.estimate * found.n)} of {found.n} | {found.n} |" in README


@pytest.mark.parametrize("preset", ["lance", "quick"])
def test_the_readme_says_how_many_edits_the_gate_keeps(preset: str) -> None:
    report = Validity.model_validate_json(VALIDITY.read_text(encoding="utf-8")).presets[preset]
    kept = report.edits["all"].kept.estimate
    assert kept is not None
    assert f"keeps {kept:.0%}".replace("%", " %") in README or f"keep {kept:.0%}".replace("%", " %") in README
