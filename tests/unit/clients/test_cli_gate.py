"""``counterpose gate`` and ``counterpose freeze``: what it prints, its exit code and files agree."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.gate import gate_text
from counterpose._cli.gate_markdown import SIGNS, gate_markdown
from counterpose._cli.junit import gate_junit
from counterpose._cli.outcomes import exit_for_gate
from counterpose_core.contract.gates import CellState, GateCell, GateSummary, UntestedClasses
from counterpose_core.errors import NotFound, Unauthorized
from counterpose_core.types import RunState
from fakes.command import Play, run
from fakes.gate_summaries import A_SET, a_cell, a_gate
from fakes.sdk import a_run, job_answer, ok, problem

STATES: tuple[CellState, ...] = get_args(CellState)
BASELINE = a_run("completed", 3, A_SET.baseline)

cells = st.builds(
    a_cell,
    st.sampled_from(STATES),
    st.sampled_from([None, "background", "a <b> & \x00|c", "\ud7ff𝄞"]),
    st.sampled_from(["candidate", "oip:http://host/v2/models/m"]),
    st.sampled_from([None, None, "plate"]),
)


def states(xml: str) -> tuple[dict[str, int], set[str]]:
    """The numbers that JUnit XML says, and the types of its failures and errors."""
    suite = ET.fromstring(xml)[0]
    cases = list(suite)
    counted = {
        tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error", "skipped")
    }
    assert counted == {
        "failure": int(suite.attrib["failures"]),
        "error": int(suite.attrib["errors"]),
        "skipped": int(suite.attrib["skipped"]),
    }
    assert int(suite.attrib["tests"]) == len(cases)
    found = [each for case in cases for each in (*case.findall("failure"), *case.findall("error"))]
    return counted, {each.attrib["type"] for each in found}


def meant(types: set[str]) -> ExitCode:
    """The exit code that the failures and errors of a JUnit file stand for."""
    for kind, code in (
        ("regression", ExitCode.FAILED),
        ("infrastructure", ExitCode.INCOMPLETE),
        ("inconclusive", ExitCode.INCONCLUSIVE),
    ):
        if kind in types:
            return code
    return ExitCode.PASSED


@settings(max_examples=200, deadline=None)
@given(st.lists(cells, max_size=6), st.booleans(), st.booleans())
def test_printed_verdict_exit_code_and_junit_agree(found: list[GateCell], ended: bool, strict: bool) -> None:
    summary = a_gate(found, ended=ended)
    code = exit_for_gate(summary.outcome, strict=strict)
    counted, types = states(gate_junit(summary))
    loose = exit_for_gate(summary.outcome)
    # Of a run that goes on, no file is written; were it, it would not be green.
    assert (meant(types) == loose) if ended else (meant(types) is not ExitCode.PASSED)
    assert (code is ExitCode.PASSED) == (counted["failure"] + counted["error"] == 0)
    assert (code is not loose) == (strict and loose is ExitCode.INCONCLUSIVE)
    assert gate_text(summary).splitlines()[0] == summary.verdict
    sign = SIGNS[summary.outcome] if summary.outcome else "⏳"
    assert gate_markdown(summary).startswith(f"### {sign} {summary.verdict}")
    if code is ExitCode.PASSED:
        assert {cell.state for cell in found if cell.change and not cell.label} - {"skipped"} == {"passed"}


@pytest.mark.parametrize(
    ("state", "tag", "kind"),
    [
        ("passed", "system-out", None),
        ("failed", "failure", "regression"),
        ("inconclusive", "failure", "inconclusive"),
        ("error", "error", "infrastructure"),
        ("skipped", "skipped", None),
    ],
)
def test_a_cell_is_a_test_case_that_says_its_own_state(state: CellState, tag: str, kind: str | None) -> None:
    suite = ET.fromstring(gate_junit(a_gate([a_cell("failed", "object"), a_cell(state, label="plate")])))[0]
    (said,) = suite[1]
    assert suite[1].attrib == {"classname": "counterpose.gate.candidate", "name": "background, plate"}
    assert (said.tag, said.attrib.get("type")) == (tag, kind)


def test_classes_without_a_test_are_skipped_cases_by_change() -> None:
    untested = [
        UntestedClasses(change="background", sources={"bus": 7, "fly \x00": 0}, classes=8),
        UntestedClasses(change="object", sources={}, classes=8),
    ]
    told = a_gate([a_cell("passed")])
    compared = A_SET.model_copy(update={"untested": untested})
    told = told.model_copy(update={"config": told.config.model_copy(update={"regression_set": compared})})
    counted, types = states(gate_junit(told))
    assert (counted, types) == ({"failure": 0, "error": 0, "skipped": 1}, set())
    case = ET.fromstring(gate_junit(told))[0][1]
    assert case.attrib["name"] == "background, single classes"
    assert case[0].attrib["message"] == (
        "too few source images for a test: 2 of 8 classes: bus 7, fly \N{REPLACEMENT CHARACTER} 0"
    )


def test_a_name_breaks_no_row_of_the_markdown_and_makes_no_link() -> None:
    names = ["a | b", "[here](http://evil)", "<img src=x>", "two\nlines"]
    told = gate_markdown(a_gate([a_cell("passed", name) for name in names]))
    rows = [line for line in told.splitlines() if line.startswith("| candidate | ")][1:]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [8] * len(names)
    assert "[here](" not in told
    assert "<img" not in told.replace("\\<img", "")


@given(st.lists(cells, max_size=4), st.sampled_from(["passed", "failed", "inconclusive", "error"]))
def test_a_summary_whose_outcome_is_not_its_cells_is_refused(found: list[GateCell], outcome: Any) -> None:
    told = a_gate(found)
    body = told.model_dump(mode="json") | {"outcome": outcome}
    if outcome == told.outcome:
        assert GateSummary.model_validate(body) == told
    else:
        with pytest.raises(ValueError, match="is not that of the cells"):
            GateSummary.model_validate(body)


def ended(summary: GateSummary, state: RunState = "completed") -> list[Any]:
    """The answers of a gate on a run that ends in a state."""
    made = a_run(run_id="run-1").model_copy(update={"kind": "gate"})
    last = a_run(state, 3).model_copy(update={"kind": "gate"})
    runs = [ok(json.loads(each.model_dump_json())) for each in (BASELINE, made, last)]
    return [*runs, ok(json.loads(summary.model_dump_json()))]


@pytest.mark.parametrize(
    ("state", "more", "code"),
    [
        ("passed", [], ExitCode.PASSED),
        ("failed", [], ExitCode.FAILED),
        ("inconclusive", [], ExitCode.INCONCLUSIVE),
        ("inconclusive", ["--strict"], ExitCode.FAILED),
        ("skipped", [], ExitCode.INCONCLUSIVE),
        ("error", [], ExitCode.INCOMPLETE),
        ("error", ["--strict"], ExitCode.INCOMPLETE),
    ],
)
@pytest.mark.fault("B64")
def test_a_gate_exits_with_its_outcome_and_writes_its_files(
    play: Play, tmp_path: Path, state: CellState, more: list[str], code: ExitCode
) -> None:
    summary = a_gate([a_cell(state), a_cell("passed", None)])
    script = play(*ended(summary))
    shown = run(
        "gate", "--baseline", A_SET.baseline, "--classifier", "candidate", "--junit", "gate.xml",
        "--markdown", "gate.md", "--json", *more,
    )  # fmt: skip
    assert shown.exit_code == code, shown.stderr
    assert json.loads(shown.stdout)["outcome"] == summary.outcome
    assert (tmp_path / "gate.xml").read_text(encoding="utf-8") == gate_junit(summary)
    assert (tmp_path / "gate.md").read_text(encoding="utf-8") == gate_markdown(summary)
    sent = json.loads(script.seen[1].content)
    assert sent == {
        "baseline": A_SET.baseline, "classifiers": ["candidate"], "incumbent": None, "digest": None,
        "tolerance": 0.1, "seed": 0,
    }  # fmt: skip


def test_a_gate_that_is_a_job_exits_with_its_outcome_too(play: Play) -> None:
    baseline, made, last, summary = ended(a_gate([a_cell("failed")]))
    script = play(baseline, job_answer(), made, last, job_answer("in_progress"), summary)
    shown = run(
        "submit", "gate", "--cluster", "gpus", "--workers", "8", "--baseline", A_SET.baseline, "--classifier",
        "candidate",
    )  # fmt: skip
    assert shown.exit_code == ExitCode.FAILED, shown.output
    sent = json.loads(script.seen[1].content)
    assert (sent["cluster"], sent["workers"], sent["run"]["kind"]) == ("gpus", 8, "gate")
    assert sent["run"]["request"]["baseline"] == A_SET.baseline


def test_a_run_that_did_not_complete_never_passes_and_writes_its_files(play: Play, tmp_path: Path) -> None:
    play(*ended(a_gate([a_cell("error")]), "completed_with_failures"))
    shown = run("gate", "--baseline", A_SET.baseline, "--classifier", "candidate", "--junit", "gate.xml")
    assert shown.exit_code == ExitCode.INCOMPLETE
    assert states((tmp_path / "gate.xml").read_text(encoding="utf-8"))[0]["error"] == 1


@pytest.mark.fault("B63")
def test_a_baseline_that_is_missing_is_wrong_usage(play: Play) -> None:
    play(ok({"runs": []}), *[ok({"runs": []})] * 10)
    shown = run("gate", "--baseline", "3fa8", "--classifier", "candidate")
    assert shown.exit_code == ExitCode.USAGE
    assert "no run '3fa8'" in shown.stderr


@pytest.mark.fault("B63")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file 'set.json'"),
        ("{}", "is no regression set"),
        ("no JSON", "is no regression set"),
    ],
)
def test_a_file_that_is_no_set_is_wrong_usage(
    play: Play, tmp_path: Path, content: str | None, said: str
) -> None:
    script = play()
    if content is not None:
        (tmp_path / "set.json").write_text(content, encoding="utf-8")
    shown = run("gate", "--baseline", "set.json", "--classifier", "candidate")
    assert shown.exit_code == ExitCode.USAGE
    assert said in shown.stderr
    assert not script.seen


def test_freeze_replaces_a_frozen_set_and_no_other_file(play: Play, tmp_path: Path) -> None:
    script = play()
    (tmp_path / "mine.json").write_text("{}", encoding="utf-8")
    shown = run("freeze", "3fa8", "mine.json")
    assert shown.exit_code == ExitCode.USAGE
    assert "is no regression set" in shown.stderr
    assert (tmp_path / "mine.json").read_text(encoding="utf-8") == "{}"
    assert not script.seen


@pytest.mark.parametrize(
    ("error", "code"),
    [(NotFound("no such run"), ExitCode.USAGE), (Unauthorized("no key"), ExitCode.REFUSED)],
)
def test_a_refusal_has_its_own_exit_code(play: Play, tmp_path: Path, error: Any, code: ExitCode) -> None:
    (tmp_path / "set.json").write_text(A_SET.model_dump_json(), encoding="utf-8")
    play(problem(error))
    assert run("gate", "--baseline", "set.json", "--classifier", "candidate").exit_code == code


def test_a_frozen_set_is_a_file_that_a_gate_takes(play: Play, tmp_path: Path) -> None:
    script = play(ok(json.loads(BASELINE.model_dump_json())), ok(json.loads(A_SET.model_dump_json())))
    shown = run("freeze", A_SET.baseline, "set.json")
    assert shown.exit_code == 0, shown.stderr
    assert "160 pairs of 80 source images (background 80, object 80), digest ddd" in shown.stdout
    assert script.seen[-1].url.path == "/v1/gates/freeze"
    assert json.loads(script.seen[-1].content) == {"baseline": A_SET.baseline}
    script = play(*ended(a_gate([a_cell("passed")]))[1:])
    shown = run("gate", "--baseline", "set.json", "--classifier", "candidate")
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(script.seen[0].content)["digest"] == A_SET.digest


def test_waiting_for_a_gate_exits_with_its_outcome(play: Play) -> None:
    play(*ended(a_gate([a_cell("failed")]))[1:])
    assert run("runs", "wait", "run-1").exit_code == ExitCode.FAILED


def test_a_file_in_no_folder_is_refused_before_anything_is_sent(play: Play) -> None:
    script = play()
    shown = run("gate", "--baseline", "x", "--classifier", "candidate", "--junit", "nowhere/gate.xml")
    assert shown.exit_code == ExitCode.USAGE
    assert not script.seen
