"""`results/editor.json`: ranges, targets, the schema, and alternating measurements."""

from __future__ import annotations

import json

import jsonschema
import pytest
from pydantic import ValidationError

from evaluation.benchmarks.interleaved import interleaved, ratios
from evaluation.benchmarks.report import EditorBenchmark, Machine, Row, at_least, at_most, row
from evaluation.paths import RESULTS

SCHEMA = RESULTS / "editor.schema.json"
MACHINE = Machine(
    processor="Some CPU", cores=2, threads=1, device=None, python="3.11", torch="2.13", diffusers="0.42"
)


def report(*rows: Row) -> EditorBenchmark:
    return EditorBenchmark(machine=MACHINE, settings={"size": "tiny"}, rows=list(rows))


def test_a_row_has_the_median_and_the_range() -> None:
    made = row("E4", "ratio", [4.0, 9.0, 3.0], at_least(3.5), advisory=True)
    assert (made.value, made.low, made.high, made.n, made.met) == (4.0, 3.0, 9.0, 3, True)
    assert made.target == "≥ 3.5"


@pytest.mark.parametrize(
    ("values", "met"), [([1e-10], True), ([2e-10], False), ([], None)]
)  # fmt: skip
def test_a_target_is_met_missed_or_open(values: list[float], met: bool | None) -> None:
    assert row("E1", "error", values, at_most(1e-10)).met is met


def test_errors_are_judged_by_their_maximum_and_ratios_by_their_median() -> None:
    assert row("T1", "error", [1e-6, 1e-6, 2e-5], at_most(1e-5)).met is False
    assert row("E4", "ratio", [2.0, 4.0, 5.0], at_least(3.5)).met is True


def test_the_checked_in_schema_matches_the_report() -> None:
    written = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert written == EditorBenchmark.model_json_schema()
    jsonschema.validate(report(row("E2", "calls", [], at_least(4.5))).model_dump(), written)


def test_a_report_refuses_unknown_fields() -> None:
    with pytest.raises(ValidationError):
        Machine.model_validate(MACHINE.model_dump() | {"host": "name"})


def test_contestants_take_turns() -> None:
    ran: list[str] = []
    times = iter([0.0, 3.0, 3.0, 4.0, 10.0, 14.0, 14.0, 16.0])
    contestants = {"slow": lambda: ran.append("slow"), "fast": lambda: ran.append("fast")}
    laps = interleaved(contestants, 2, {"wall": lambda: next(times)})
    assert ran == ["slow", "fast", "slow", "fast"]
    assert ratios(laps["slow"]["wall"], laps["fast"]["wall"]) == [3.0, 2.0]
