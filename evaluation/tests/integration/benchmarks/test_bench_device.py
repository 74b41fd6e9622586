"""The device mode of `make bench`: it runs reduced on a CPU, and published sizes match the cost model."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from evaluation.benchmarks.command import main
from evaluation.benchmarks.device.networks import Architecture, Model
from evaluation.benchmarks.device.throughput import F_FLOPS
from evaluation.benchmarks.report import EditorBenchmark


@pytest.mark.parametrize("model", get_args(Model))
def test_a_reduced_architecture_is_measured_without_a_verdict(model: Model, tmp_path: Path) -> None:
    out = tmp_path / "device.json"
    main(["--model", model, "--device", "cpu", "--out", str(out)])
    report = EditorBenchmark.model_validate_json(out.read_bytes())
    assert report.settings == {"model": model, "device": "cpu", "size": "small"}
    assert {row.gate for row in report.rows} == {"E4", "E5", "E6", "S1", "T1"}
    assert all(row.value and row.target is None and row.met is None for row in report.rows)
    assert any(f"({model}" in row.measure for row in report.rows)


@pytest.mark.parametrize(("model", "evaluations"), [("sd14", 1.0), ("sd21", 2.68), ("sdxl", 8.4)])
def test_the_cost_model_predicts_an_evaluation_at_published_size(model: Model, evaluations: float) -> None:
    assert Architecture.read(model).evaluation_flops / F_FLOPS == pytest.approx(evaluations, rel=0.02)
