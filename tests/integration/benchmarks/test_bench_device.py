"""The device mode of `make bench`: shrunk on a CPU it runs; published sizes cost what the cost model says."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from benchmarks.command import main
from benchmarks.device.networks import Architecture, Model, evaluation_flops
from benchmarks.device.throughput import F_FLOPS
from benchmarks.report import EditorBenchmark


@pytest.mark.parametrize("model", get_args(Model))
def test_a_shrunk_architecture_is_measured_without_a_verdict(model: Model, tmp_path: Path) -> None:
    out = tmp_path / "device.json"
    main(["--model", model, "--device", "cpu", "--out", str(out)])
    report = EditorBenchmark.model_validate_json(out.read_bytes())
    assert report.settings == {"model": model, "device": "cpu", "size": "small"}
    assert {row.gate for row in report.rows} == {"E4", "E5", "E6", "T1"}
    assert all(row.value and row.target is None and row.met is None for row in report.rows)
    assert f"({model}" in out.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("model", "evaluations"), [("sd14", 1.0), ("sd21", 2.68), ("sdxl", 8.4)])
def test_an_evaluation_of_a_published_size_costs_what_the_cost_model_says(
    model: Model, evaluations: float
) -> None:
    assert evaluation_flops(Architecture.read(model)) / F_FLOPS == pytest.approx(evaluations, rel=0.02)
