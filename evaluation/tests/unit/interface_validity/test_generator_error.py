"""The generator's error of an impact: measured on renderings, stated by the product."""

from __future__ import annotations

import json

import pytest

from counterpose_core.shift_benchmark.generator_error import GENERATOR_ERRORS, with_generator_error
from counterpose_core.types import Estimate
from evaluation.interface_validity.generator_error import generator_error
from evaluation.interface_validity.report import ImpactFigures
from evaluation.paths import RESULTS


@pytest.mark.parametrize("source", GENERATOR_ERRORS["miniature"])
def test_the_stated_error_is_the_measured_one(source: str) -> None:
    measured = json.loads((RESULTS / "interface-validity.json").read_text(encoding="utf-8"))["impact"]
    figures = ImpactFigures.model_validate(measured[source])
    assert generator_error(figures) == pytest.approx(GENERATOR_ERRORS["miniature"][source], abs=6e-4)


@pytest.mark.parametrize("source", GENERATOR_ERRORS["miniature"])
def test_the_wider_interval_holds_the_rendered_impacts(source: str) -> None:
    """Of 11 shifts, the interval over seeds alone held 6; allowing for two misses, this one holds them."""
    measured = json.loads((RESULTS / "interface-validity.json").read_text(encoding="utf-8"))["impact"]
    rows = ImpactFigures.model_validate(measured[source]).shifts
    held = 0
    for row in rows:
        wide = with_generator_error(row.impact, "miniature", source)
        assert wide is not None
        assert wide.low is not None
        assert wide.high is not None
        assert row.true_impact.estimate is not None
        held += wide.low <= row.true_impact.estimate <= wide.high
    assert held >= len(rows) - 2 > sum(row.impact_held for row in rows)


def test_an_unmeasured_generator_has_no_error() -> None:
    impact = Estimate(estimate=0.1, low=0.08, high=0.13, n=100)
    assert with_generator_error(impact, "lance", "token") is None
    assert with_generator_error(impact, "miniature", "photographs") is None
    nothing = Estimate(estimate=None, low=None, high=None, n=0)
    assert with_generator_error(nothing, "miniature", "token") is None
