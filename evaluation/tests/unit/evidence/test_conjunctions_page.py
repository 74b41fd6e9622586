"""The page of findings of two conditions, and that it appears with its record."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.types import Estimate
from evaluation.evidence import pages as evidence
from evaluation.evidence.conjunctions import conjunctions_page
from evaluation.two_way.report import (
    ConjunctionReport,
    TwoWayBugReport,
    TwoWayFigures,
    TwoWayRecord,
    TwoWayRun,
)

CONDITIONS = [("background", "sand"), ("weather", "rain")]


def about(value: float, n: int = 8) -> Estimate:
    return Estimate(estimate=value, low=value - 0.1, high=value + 0.1, n=n)


FIGURES = TwoWayFigures(
    seed=7,
    together=2,
    planted=1,
    taught=2,
    met=about(0.5, 24),
    named_of_met=about(0.75, 12),
    proposed_of_met=about(0.8, 12),
    precision=about(0.9, 10),
    false_runs=about(0.1, 4),
    false_classifiers=about(0.2, 16),
    bugs=[
        TwoWayBugReport(
            classifier="local:two-way-7-0",
            bug="bug-0-0",
            object_class="fly",
            conditions=CONDITIONS,
            drop_together=about(0.6),
            drop_alone=about(0.0),
            is_planted=True,
            met=True,
            proposed=True,
            named=False,
        )
    ],
    conjunctions=[
        ConjunctionReport(
            roster="two-way-1",
            classifier="local:two-way-7-0",
            object_class="fly",
            conditions=CONDITIONS,
            estimate=about(0.4),
            drop_together=about(0.3),
            drop_alone=about(0.2),
            is_true=False,
        )
    ],
    runs=[
        TwoWayRun(roster=roster, size=160, classifiers=4, kind=kind, items=1200, tested=9, proven=2, false=1)
        for roster, kind in [("two-way-1", "two-way"), ("others-1", "others")]
    ],
)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    file = tmp_path / "two-way.json"
    figures = [FIGURES, FIGURES.model_copy(update={"together": 4, "named_of_met": about(0.3, 11)})]
    file.write_text(TwoWayRecord(figures=figures).model_dump_json(), encoding="utf-8")
    return file


def test_the_page_tells_what_is_met_named_true_and_false(record: Path) -> None:
    page = conjunctions_page(record)
    assert "Runs of 2 classifiers met 0.50 (0.40 to 0.60) of 24 planted bugs" in page
    assert "named 0.75 (0.65 to 0.85) of those met (n = 12)" in page
    assert "named 0.30 (0.20 to 0.40) of those met (n = 11)" in page
    assert page.index("## Runs of 2 classifiers") < page.index("## Runs of 4 classifiers")
    assert "| of these, named by a finding that breaks | ≥ 0.7 | 0.75 (0.65 to 0.85) | 12 |" in page
    assert "| runs without such bugs with a false one | ≤ 0.05 | 0.10 (0.00 to 0.20) | 4 |" in page
    assert "1 of 2 bugs are planted" in page


def test_every_bug_finding_and_run_has_its_row(record: Path) -> None:
    page = conjunctions_page(record)
    fly = "| local:two-way-7-0 | fly | background sand, weather rain |"
    assert f"{fly} 0.60 (0.50 to 0.70) | 0.00 (-0.10 to 0.10) | yes | yes | yes | no |" in page
    assert f"{fly} 0.40 (0.30 to 0.50) | 0.30 (0.20 to 0.40) | 0.20 (0.10 to 0.30) | **no** |" in page
    assert "| two-way-1 | 160 | 4 | yes | 1,200 | 9 | 2 | 1 |" in page
    assert "| others-1 | 160 | 4 | no | 1,200 | 9 | 2 | 1 |" in page


def test_page_link_and_entry_of_the_site_appear_with_the_record(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, index = (evidence.EVIDENCE / name for name in ("conjunctions.md", "index.md"))
    monkeypatch.setattr(evidence, "CONJUNCTIONS", record)
    with_record = evidence.pages()
    assert with_record[page] == conjunctions_page(record)
    assert "](conjunctions.md)**: Runs of 2 classifiers met 0.50" in with_record[index]
    assert with_record[evidence.SITE].count("evidence/conjunctions.md\n") == 1
    monkeypatch.setattr(evidence, "CONJUNCTIONS", record.with_name("none.json"))
    without = evidence.pages()
    assert page not in without
    assert "conjunctions.md" not in without[index]
    assert "conjunctions.md" not in without[evidence.SITE]


def test_the_entry_stands_in_the_site_once_however_often_it_is_written() -> None:
    text = evidence.SITE.read_text(encoding="utf-8")
    once = evidence.navigation(text, conjunctions=True)
    assert evidence.navigation(once, conjunctions=True) == once
    assert "Findings and rendered truth: evidence/findings.md\n      - Findings of two conditions" in once
    assert evidence.navigation(once, conjunctions=False) == evidence.navigation(text, conjunctions=False)
