"""The sentence of a gate says in how many of its cells nothing was tested."""

from __future__ import annotations

import pytest

from counterpose_core.contract.gates import CellState, outcome_of
from counterpose_core.types import Estimate
from counterpose_gateway.methods.gate.errors import Judged, verdict
from counterpose_gateway.reports.numbers import share_interval
from fakes.gate_summaries import a_cell, a_gate


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["passed", "passed"], "in 2 cells, and"),
        (["passed"], "in 1 cell, and"),
        (
            ["passed", "passed", "skipped", "skipped", "skipped"],
            "in 2 of 5 cells (3 not tested: too few source images), and",
        ),
    ],
)
def test_a_gate_that_passes_says_how_many_cells_it_did_not_test(states: list[CellState], said: str) -> None:
    cells = [a_cell(state) for state in states]
    sentence = verdict(a_gate(cells).config, outcome_of(cells), Judged(cells, states.count("passed")))
    assert sentence.startswith(f"Passed: no regression above 10 points {said} no class was tested")


def test_an_improvement_is_no_regression_and_a_zero_has_no_minus() -> None:
    better = a_cell("passed").model_copy(
        update={"regression": Estimate(estimate=-0.1212, low=-0.371, high=-0.0001, n=33)}
    )
    sentence = verdict(a_gate([better]).config, "passed", Judged([better], 1))
    assert "no estimate is above 0, and the highest is " in sentence
    assert sentence.split(": ")[-1].startswith("-12.1 points [-37.1, +0.0] (n=33).")
    assert str(better.regression) == "-0.121 [-0.371, 0.000] (n=33)"
    worse = a_cell("passed").model_copy(
        update={"regression": Estimate(estimate=0.05, low=-0.01, high=0.09, n=33)}
    )
    assert "; the largest is " in verdict(a_gate([worse]).config, "passed", Judged([worse], 1))


@pytest.mark.parametrize(
    ("low", "high", "said"), [(0.07, 0.11, "7–11 %"), (-0.07, 0.11, "−7 to 11 %"), (-0.001, 0.11, "0–11 %")]
)
def test_an_interval_below_zero_is_not_joined_by_a_dash(low: float, high: float, said: str) -> None:
    assert share_interval(Estimate(estimate=0.01, low=low, high=high, n=54)) == said
