"""The page of findings: by words beside by edits, and what the file is older than."""

from __future__ import annotations

from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.findings import FINDINGS, findings_page
from evaluation.two_stages.report import Coverage, FindingsValidity, StageFigures

RECORD = FindingsValidity.model_validate_json(FINDINGS.read_bytes())


def page_of(folder: Path, changes: dict[str, object]) -> str:
    """The page of the record with other figures of two stages and all sizes."""
    figures = {size: dict(stages) for size, stages in RECORD.figures.items()}
    changed = figures["all"]["two"].model_dump() | changes
    figures["all"]["two"] = StageFigures.model_validate(changed)
    file = folder / "findings.json"
    file.write_text(RECORD.model_copy(update={"figures": figures}).model_dump_json(), encoding="utf-8")
    return findings_page(file)


def test_findings_are_judged_by_their_words_beside_their_edits(tmp_path: Path) -> None:
    words = Estimate(estimate=0.75, low=0.5, high=0.9, n=12)
    page = page_of(tmp_path, {"precision_by_words": words, "recall_by_words": words})
    row = next(line for line in page.splitlines() if "whose words are true | ≥ 0.95 |" in line)
    assert row.endswith("| 0.750 (0.500 to 0.900) | 12 |")
    assert "planted bugs found, by a finding whose words are true" in page
    assert "; 0.75 (0.50 to 0.90) of their words (n = 12)." in page


def test_what_a_file_is_older_than_is_not_measured(tmp_path: Path) -> None:
    page = page_of(tmp_path, {"precision_by_words": None, "recall_by_words": None, "coverage": None})
    row = next(line for line in page.splitlines() if "whose words are true | ≥ 0.95 |" in line)
    assert row.endswith("| not measured | - |")
    assert "; whether their words are true is not measured." in page
    assert "| two stages | all | not measured | - |" in page


def test_the_intervals_beside_verdicts_are_held_against_the_truth(tmp_path: Path) -> None:
    share = Estimate(estimate=0.9, low=0.7, high=1.0, n=20)
    coverage = Coverage(all=share, by_state={"breaks": share}, left_out={"two-conditions": 3})
    page = page_of(tmp_path, {"coverage": coverage})
    assert "| two stages | breaks | 0.900 (0.700 to 1.000) | 20 |" in page
    assert "| two stages | holds | - | 0 |" in page
    assert "| two stages | all | 0.900 (0.700 to 1.000) | 20 |" in page
    left_out = "0 seen in the screen alone, 3 of two conditions, 0 without a whole pair"
    assert f"Left out of two stages: {left_out}, 0 without a rendered truth." in page
