"""What became of an id: by the outcomes of its tests, and why where none ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.evidence.faults import known
from evaluation.evidence.markers import markers
from evaluation.faults.__main__ import PARTS, kept, part_of
from evaluation.faults.results import Outcome, State, function_of, outcome_of, result_of

NEEDS = "needs vLLM's environment"


@pytest.mark.parametrize(
    ("cases", "outcome"),
    [
        ([], "not run"),
        (["passed", "passed"], "passed"),
        (["passed", "skipped"], "passed"),
        (["passed", "failed"], "failed"),
        (["skipped"], "skipped"),
    ],
)
def test_cases_of_a_test_become_one_outcome(cases: list[Outcome], outcome: Outcome) -> None:
    found = outcome_of("tests/a.py::test_b", [(each, None) for each in cases], None)
    assert (found.outcome, found.cases) == (outcome, len(cases))


@pytest.mark.parametrize(
    ("outcomes", "state", "why"),
    [
        ([], "no test", "waits for tenants"),
        ([("passed", None), ("failed", None)], "failed", "waits for tenants"),
        ([("passed", None), ("not run", NEEDS)], "passed", "waits for tenants"),
        ([("skipped", "no disk"), ("not run", NEEDS)], "cannot run here", "no disk"),
        ([("not run", NEEDS), ("not run", None)], "not run yet", "waits for tenants"),
        ([("not run", NEEDS)], "cannot run here", NEEDS),
        ([("not run", None)], "not run yet", "waits for tenants"),
    ],
)
def test_outcomes_of_tests_become_the_state_of_an_id(
    outcomes: list[tuple[Outcome, str | None]], state: State, why: str
) -> None:
    tests = [
        outcome_of("tests/a.py::test_b", [] if outcome == "not run" else [(outcome, reason)], reason)
        for outcome, reason in outcomes
    ]
    found = result_of("T4", "No endpoint shows.", tests, "tenants")
    assert (found.state, found.why) == (state, why)


def test_the_newest_outcome_of_each_case_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    lines = [("a.py::test_b[1]", "failed"), ("a.py::test_b[2]", "passed"), ("a.py::test_b[1]", "passed")]
    rows = [json.dumps({"test": test, "outcome": outcome, "why": None}) for test, outcome in lines]
    file.write_text("\n".join(rows), encoding="utf-8")
    expected = {"a.py::test_b[1]": ("passed", None), "a.py::test_b[2]": ("passed", None)}
    assert kept(file) == {"a.py::test_b": expected}
    assert kept(tmp_path / "none.jsonl") == {}


def test_every_marked_test_belongs_to_a_part() -> None:
    covered = markers().fault
    ids = [name for section in known().values() for name in section]
    assert {part_of(test) for name in ids for test in covered.get(name, ())} <= set(PARTS)
    assert function_of("a.py::test_b[x-y[0]]") == "a.py::test_b"
