"""The few figures of the README are those of the result files."""

from __future__ import annotations

import pytest

from counterpose_core.types import Estimate
from evaluation.evidence.validity import VALIDITY
from evaluation.paths import RESULTS, ROOT
from evaluation.two_stages.report import FindingsValidity
from evaluation.validity.report import Agreement, Validity

README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = FindingsValidity.model_validate_json(
    (RESULTS / "findings-validity.json").read_text(encoding="utf-8")
)
FINDINGS = {size: figures["two"] for size, figures in MEASURED.figures.items()}
BY_WORDS = FINDINGS["all"].precision_by_words
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
        ("rank correlation of estimated and true drops", TOOL.spearman),
    ],
)
def test_a_row_of_the_readme_is_current(row: str, measured: Estimate) -> None:
    low, high = measured.low or 0.0, measured.high or 0.0
    assert f"| {row} | {measured.estimate:.2f} ({low:.2f} to {high:.2f}) | {measured.n:,}" in README


def test_the_readme_counts_the_findings_of_the_unbiased_classifiers() -> None:
    found = FINDINGS["all"].controls_with_a_finding
    assert found.estimate is not None
    assert f"with a finding | {round(found.estimate * found.n)} of {found.n} | {found.n} |" in README


@pytest.mark.parametrize("preset", ["lance", "quick"])
def test_the_readme_says_how_many_edits_the_gate_keeps(preset: str) -> None:
    report = Validity.model_validate_json(VALIDITY.read_text(encoding="utf-8")).presets[preset]
    kept = report.edits["all"].kept.estimate
    assert kept is not None
    assert f"keeps {kept:.0%}".replace("%", " %") in README or f"keep {kept:.0%}".replace("%", " %") in README
