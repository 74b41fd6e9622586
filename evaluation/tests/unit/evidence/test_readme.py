"""The few figures of the README are those of the result files."""

from __future__ import annotations

import pytest

from evaluation.evidence.validity import VALIDITY
from evaluation.paths import ROOT
from evaluation.validity.report import Agreement, Validity
from faultline_core.types import Estimate

README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK = Validity.model_validate_json(VALIDITY.read_text(encoding="utf-8")).presets["quick"]

TOOL = QUICK.agreement["faultline"]
assert isinstance(TOOL, Agreement)


@pytest.mark.parametrize(
    ("row", "measured"),
    [
        ("planted bugs found, of those with a true drop of 0.3 or more", QUICK.detection.recall_of_strong),
        ("true insights, of those that are significant", QUICK.detection.precision),
        ("rank correlation of estimated and true drops", TOOL.spearman),
    ],
)
def test_a_row_of_the_readme_is_current(row: str, measured: Estimate) -> None:
    low, high = measured.low or 0.0, measured.high or 0.0
    assert f"| {row} | {measured.estimate:.2f} ({low:.2f} to {high:.2f}) | {measured.n:,}" in README


def test_the_readme_counts_the_false_alarms_of_the_unbiased_classifiers() -> None:
    alarmed = QUICK.detection.controls_with_a_false_alarm
    assert alarmed.estimate is not None
    assert f"| {round(alarmed.estimate * alarmed.n)} of {alarmed.n} | {alarmed.n} |" in README


@pytest.mark.parametrize("preset", ["lance", "quick"])
def test_the_readme_says_how_many_edits_the_gate_keeps(preset: str) -> None:
    report = Validity.model_validate_json(VALIDITY.read_text(encoding="utf-8")).presets[preset]
    kept = report.edits["all"].kept.estimate
    assert kept is not None
    assert f"keeps {kept:.0%}".replace("%", " %") in README or f"keep {kept:.0%}".replace("%", " %") in README
