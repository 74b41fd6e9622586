"""The fact that reports print beside a suspicion is that of the result file."""

from __future__ import annotations

import pytest

from counterpose_core.types import Estimate
from evaluation.two_stages.measured import MODULE, RESULT, suspected_precision, written
from evaluation.two_stages.report import FindingsValidity

TEXT = '"""Facts."""\n\nSUSPECTED: Estimate | None = None\n"""What it is."""\n'
FOUND = Estimate(estimate=0.81234, low=0.7, high=0.9, n=53)


def test_the_figure_replaces_the_one_before() -> None:
    once = written(TEXT, FOUND)
    line = "SUSPECTED: Estimate | None = Estimate(estimate=0.812, low=0.7, high=0.9, n=53)"
    assert once.splitlines()[2] == line
    assert written(once, None) == TEXT


def test_a_module_without_its_line_is_not_written() -> None:
    with pytest.raises(ValueError, match="has 0 lines"):
        written("nothing", FOUND)


def test_the_module_holds_the_measured_figure() -> None:
    if not RESULT.exists():
        pytest.skip("no study was checked in yet")
    found = suspected_precision(FindingsValidity.model_validate_json(RESULT.read_bytes()))
    text = MODULE.read_text(encoding="utf-8")
    assert written(text, found) == text, "run `python -m evaluation.two_stages.measured`"
