"""The page of the rehearsal: predictions beside measurements, and what was not served with its reason."""

from __future__ import annotations

from pathlib import Path

from evaluation.benchmarks.report import Machine
from evaluation.evidence.rehearsal import finding, rehearsal_page
from evaluation.rehearsal.report import Memory, Rehearsal, Row

GIB = 2**30
MACHINE = Machine(
    processor="Some CPU", cores=2, threads=2, device=None, python="3.11", torch="2.13", diffusers="0.42"
)


def row(case: str, own: float | None, problem: str | None = None, **fields: object) -> Row:
    memory = Memory(
        computed=GIB,
        weights=GIB,
        allowance=GIB,
        own=None if own is None else int(own * GIB),
        resident=3 * GIB,
    )
    given = {
        "case": case, "models": case.upper(), "device": "cpu", "dtype": "float32", "threads": 2,
        "stored_bytes": GIB, "memory": memory, "problem": problem,
    }  # fmt: skip
    return Row.model_validate(given | fields)


def report(*rows: Row) -> Rehearsal:
    return Rehearsal(machine=MACHINE, memory_bytes=24 * GIB, rows=list(rows))


def test_the_finding_counts_what_was_served_and_how_near_the_predictions_are() -> None:
    told = finding(report(row("a", 2.0), row("b", 1.0), row("c", None, "does not fit")))
    assert told.startswith("2 of 3 services start")
    assert told.endswith("within 25 % of what was measured in 1 of 2, 1.00 to 2.00 times it.")


def test_a_row_has_its_memory_and_its_seconds_for_each_evaluation(tmp_path: Path) -> None:
    file = tmp_path / "rehearsal.json"
    measured = row("editor", 1.6, request_seconds=30.0, evaluations=4, steps=2, start_seconds=9.5)
    missing = row("giant", None, "counted on the meta device only")
    file.write_text(report(measured, missing).model_dump_json(), encoding="utf-8")
    page = rehearsal_page(file)
    memory = "| 1.00 GiB | 1.00 GiB | 2.00 GiB | 1.60 GiB | 1.25 | 3.00 GiB |"
    assert f"| EDITOR | cpu | float32 {memory}" in page
    assert "| EDITOR | 2 | - | 9.5 s | - | - | 30 s | 2 | 4 | 7.5 s |" in page
    assert "- GIANT on cpu: counted on the meta device only." in page
