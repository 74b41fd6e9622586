"""`make bench` at its smallest size: every gate runs, and the output is a valid report."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.benchmarks.command import GATES, main
from evaluation.benchmarks.report import EditorBenchmark


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "editor.json"
    main(["--size", "tiny", "--out", str(out)])
    return out


def test_every_gate_has_measured_rows(written: Path) -> None:
    report = EditorBenchmark.model_validate_json(written.read_bytes())
    found = [row for row in report.rows if row.value is not None]
    assert {row.gate for row in found} == set(GATES)
    assert all(row.n for row in found)
    assert {row.gate for row in found if row.advisory} == {"E4", "T1"}


def test_gates_that_need_an_accelerator_stay_unmeasured(written: Path) -> None:
    report = EditorBenchmark.model_validate_json(written.read_bytes())
    opened = [row for row in report.rows if row.value is None]
    assert {row.gate for row in opened} == {"E4", "E5", "E6", "E7", "S1", "T1"}
    assert all(row.target and row.met is None and row.n == 0 for row in opened)


def test_the_exactness_gates_are_met(written: Path) -> None:
    report = EditorBenchmark.model_validate_json(written.read_bytes())
    rows = [row for row in report.rows if row.value is not None]
    exact = [row for row in rows if row.gate in ("E1", "E7") or "float32" in row.measure]
    assert len(exact) == 14
    assert all(row.met for row in exact), [row for row in exact if not row.met]


def test_the_results_name_no_folder(written: Path) -> None:
    assert str(written.parent) not in written.read_text(encoding="utf-8")


def test_remeasuring_a_gate_keeps_the_others_of_the_same_settings(written: Path, tmp_path: Path) -> None:
    out = tmp_path / "editor.json"
    earlier = EditorBenchmark.model_validate_json(written.read_bytes())
    out.write_bytes(written.read_bytes())
    main(["--size", "tiny", "--only", "E6", "--out", str(out)])
    assert EditorBenchmark.model_validate_json(out.read_bytes()).rows == earlier.rows
    other = earlier.model_copy(update={"settings": {**earlier.settings, "steps": 999}})
    out.write_text(other.model_dump_json(), encoding="utf-8")
    main(["--size", "tiny", "--only", "E6", "--out", str(out)])
    rows = EditorBenchmark.model_validate_json(out.read_bytes()).rows
    assert {row.gate for row in rows if row.value is not None} == {"E6"}
