"""`bench/editor.json`: ranges, targets that are met or open, the table, the schema; laps taken in turns."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

from benchmarks.interleaved import interleaved, ratios
from benchmarks.report import EditorBenchmark, Machine, Row, at_least, at_most, markdown, row

SCHEMA = Path(__file__).parents[3] / "bench" / "editor.schema.json"
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


def test_an_error_is_judged_by_its_worst_and_a_ratio_by_its_middle() -> None:
    assert row("T1", "error", [1e-6, 1e-6, 2e-5], at_most(1e-5)).met is False
    assert row("E4", "ratio", [2.0, 4.0, 5.0], at_least(3.5)).met is True


def test_a_smaller_size_says_that_its_targets_are_not_set_for_it() -> None:
    assert "A size to see" in markdown(report(row("E2", "calls", [4.0])))
    full = report(row("E2", "calls", [4.0])).model_copy(update={"settings": {"size": "full"}})
    assert "A size to see" not in markdown(full)


def test_the_table_shows_what_is_missed_and_what_is_open() -> None:
    page = markdown(
        report(
            row("E2", "calls", [4.0], at_least(4.5)),
            row("E5", "F/s", [], at_least(600)),
            row("J", "n", [1.0]),
        )
    )
    lines = [line for line in page.splitlines() if line.startswith("| ")][2:]
    assert lines == [
        "| E2 | calls | ≥ 4.5 | 4 | - | 1 | **no** |",
        "| E5 | F/s | ≥ 600 | open | - | 0 | - |",
        "| J | n | - | 1 | - | 1 | - |",
    ]
    assert "Some CPU, 2 cores, 1 thread(s)" in page


def test_the_checked_in_schema_is_the_report_s() -> None:
    written = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert written == EditorBenchmark.model_json_schema()
    jsonschema.validate(report(row("E2", "calls", [], at_least(4.5))).model_dump(), written)


def test_a_report_takes_no_field_that_it_does_not_know() -> None:
    with pytest.raises(ValidationError):
        Machine.model_validate(MACHINE.model_dump() | {"host": "name"})


def test_contestants_run_in_turns() -> None:
    ran: list[str] = []
    times = iter([0.0, 3.0, 3.0, 4.0, 10.0, 14.0, 14.0, 16.0])
    contestants = {"slow": lambda: ran.append("slow"), "fast": lambda: ran.append("fast")}
    laps = interleaved(contestants, 2, {"wall": lambda: next(times)})
    assert ran == ["slow", "fast", "slow", "fast"]
    assert ratios(laps["slow"]["wall"], laps["fast"]["wall"]) == [3.0, 2.0]
