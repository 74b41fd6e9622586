"""The simulation of coverage and error rates: its truths are correct and its figures are written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from evaluation import simulation
from evaluation.simulation import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_truth_of_a_scenario_is_the_mean_of_its_estimates(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "_DRAWS", 20)
    scenario, generator = SCENARIOS[name], np.random.default_rng(0)
    figures = [scenario.draw(40, generator).estimate for _ in range(120)]
    found = [figure for figure in figures if figure is not None]
    error = float(np.std(found)) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(scenario.truth, abs=3.5 * error)


def test_figures_are_written_with_their_number_of_replicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "simulation.json"
    monkeypatch.setattr(simulation, "SOURCES", (10,))
    monkeypatch.setattr(simulation, "CLUSTERS", 6)
    monkeypatch.setattr(simulation, "HARMFUL", 1)
    monkeypatch.setattr(sys, "argv", ["simulation", "--replicates", "4", "--out", str(out)])
    simulation.main()
    row = json.loads(out.read_text(encoding="utf-8"))["sources"]["10"]
    assert set(row["coverage"]) == set(SCENARIOS)
    for figure in ("false_alarm", "detectable_drop_found"):
        assert row[figure]["n"] == 4
        assert row[figure]["low"] < row[figure]["high"]
