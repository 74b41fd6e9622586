"""What a proven finding took is printed and has a place on the page of evidence, measured or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterpose_core.types import Estimate
from evaluation.evidence.findings import FINDINGS, findings_page
from evaluation.two_stages.report import FindingsValidity
from evaluation.two_stages.validate import costs_told

COST = Estimate(estimate=2126.4, low=1100.0, high=7800.0, n=4)


def record(cost: Estimate | None) -> FindingsValidity:
    """The checked-in record with one cost at 48 images, and none elsewhere."""
    known = json.loads(FINDINGS.read_text(encoding="utf-8"))
    for figures in known["figures"].values():
        for each in figures.values():
            each["evaluations_per_proof"] = None
    known["figures"]["48"]["two"]["evaluations_per_proof"] = cost and cost.model_dump()
    return FindingsValidity.model_validate(known)


def test_each_size_that_was_measured_is_a_printed_row() -> None:
    assert list(costs_told(record(COST))) == [
        "48 images: 2,126 network evaluations of a run for each true finding that it proves "
        "(1,100 to 7,800, n=4)"
    ]
    assert list(costs_told(record(None))) == []


@pytest.mark.parametrize(
    ("cost", "row"),
    [
        (COST, "| 48 | two stages | 2126 (1100 to 7800) | 4 |"),
        (None, "| 48 | two stages | not measured | - |"),
    ],
)
def test_the_page_has_the_cost_or_says_that_it_was_not_measured(
    cost: Estimate | None, row: str, tmp_path: Path
) -> None:
    file = tmp_path / "findings.json"
    file.write_text(record(cost).model_dump_json(), encoding="utf-8")
    assert row in findings_page(file)
    assert "| 96 | two stages | not measured | - |" in findings_page(file)
