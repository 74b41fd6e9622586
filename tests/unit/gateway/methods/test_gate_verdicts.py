"""The sentence of a gate says in how many of its cells nothing was tested."""

from __future__ import annotations

import pytest

from counterpose_core.contract.gates import CellState, outcome_of
from counterpose_gateway.methods.gate.errors import Judged, verdict
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
