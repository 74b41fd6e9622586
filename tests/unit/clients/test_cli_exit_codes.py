"""The command's exit code: 0 to 5 and 130, each for what it stands for and for nothing else."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from counterpose._cli import follow, main
from counterpose._cli import stress_test as stress_test_command
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.main import app
from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    InternalError,
    QuotaExceeded,
    RateLimited,
    Unauthorized,
    UnknownModel,
)
from counterpose_core.types import Estimate
from fakes.command import Play
from fakes.sdk import a_summary, an_interventions_summary, ok, problem, run_answer, summary_answer

SMALL = Estimate(estimate=0.0, low=-0.02, high=0.03, n=40)
LARGE = Estimate(estimate=0.4, low=0.3, high=0.5, n=40)
UNCLEAR = Estimate(estimate=0.1, low=-0.1, high=0.3, n=9)
NONE_LEFT = Estimate(estimate=None, low=None, high=None, n=0)


def stress_test(*more: str) -> Any:
    """``counterpose stress-test`` on a dataset of the gateway's."""
    return CliRunner().invoke(app, ["stress-test", "demo", "--classifier", "a", *more])


def ended(drop: Estimate, state: Any = "completed") -> list[httpx.Response]:
    """The answers of a stress test that ends in a state, with a drop."""
    return [run_answer(), run_answer(state, 3), summary_answer(a_summary(leaning=drop))]


@pytest.mark.parametrize(
    ("drop", "more", "code", "word"),
    [
        (SMALL, [], ExitCode.PASSED, "passed"),
        (LARGE, [], ExitCode.FAILED, "failed"),
        (UNCLEAR, [], ExitCode.INCONCLUSIVE, "inconclusive"),
        (NONE_LEFT, [], ExitCode.INCONCLUSIVE, "inconclusive"),
        (UNCLEAR, ["--strict"], ExitCode.FAILED, "failed"),
        (NONE_LEFT, ["--strict"], ExitCode.FAILED, "failed"),
        (SMALL, ["--strict"], ExitCode.PASSED, "passed"),
    ],
)
@pytest.mark.parametrize("verb", ["stress-test", "wait"])
def test_the_result_of_max_drop_is_printed_and_is_the_exit_code(
    play: Play, verb: str, drop: Estimate, more: list[str], code: ExitCode, word: str
) -> None:
    play(*ended(drop))
    gate = ["--max-drop", "0.1", "--json", *more]
    shown = (
        stress_test(*gate)
        if verb == "stress-test"
        else CliRunner().invoke(app, ["runs", "wait", "run-1", *gate])
    )
    assert shown.exit_code == code
    assert f"--max-drop 0.1 {word}" in shown.stderr
    assert json.loads(shown.stdout)["models"]["leaning"]


@pytest.mark.parametrize(
    ("drop", "state", "kind"),
    [
        (SMALL, "completed", None),
        (LARGE, "completed", "drop"),
        (UNCLEAR, "completed", "inconclusive"),
        (NONE_LEFT, "completed", "inconclusive"),
        (LARGE, "completed_with_failures", "infrastructure"),
    ],
)
def test_junit_says_what_the_exit_code_says(
    play: Play, tmp_path: Path, drop: Estimate, state: str, kind: str | None
) -> None:
    play(*ended(drop, state))
    shown = stress_test("--max-drop", "0.1", "--junit", str(tmp_path / "run.xml"))
    codes = {"drop": ExitCode.FAILED, "infrastructure": ExitCode.INCOMPLETE, None: ExitCode.PASSED}
    assert shown.exit_code == codes.get(kind, ExitCode.INCONCLUSIVE)
    (case,) = ET.parse(tmp_path / "run.xml").getroot()[0]
    assert [each.attrib["type"] for each in case if each.tag != "system-out"] == ([kind] if kind else [])


def test_junit_needs_a_limit_and_a_folder(play: Play, tmp_path: Path) -> None:
    shown = stress_test("--junit", str(tmp_path / "run.xml"))
    assert (shown.exit_code, "--junit needs --max-drop" in shown.stderr) == (ExitCode.USAGE, True)
    shown = stress_test("--max-drop", "0.1", "--junit", str(tmp_path / "none" / "run.xml"))
    assert (shown.exit_code, "name a file in an existing folder" in shown.stderr) == (ExitCode.USAGE, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("drop", "code"), [(SMALL, ExitCode.PASSED), (LARGE, ExitCode.FAILED)])
def test_interventions_are_judged_where_no_other_edit_was_made(
    play: Play, drop: Estimate, code: ExitCode
) -> None:
    play(run_answer(), run_answer("completed", 3), summary_answer(an_interventions_summary(leaning=drop)))
    shown = stress_test("--max-drop", "0.1", "--edit", "=>in the snow", "--max-edits-per-image", "0")
    assert shown.exit_code == code
    assert "leaning where “in the snow” is added" in shown.stderr


def test_a_completed_run_passes_without_max_drop_whatever_it_found(play: Play) -> None:
    play(*ended(LARGE))
    shown = stress_test()
    assert shown.exit_code == ExitCode.PASSED
    assert "--max-drop" not in shown.stderr


@pytest.mark.parametrize("state", ["completed_with_failures", "failed", "cancelled"])
def test_an_incomplete_run_is_3_and_is_not_judged(play: Play, state: str) -> None:
    play(*ended(SMALL, state))
    shown = stress_test("--max-drop", "0.1")
    assert shown.exit_code == ExitCode.INCOMPLETE
    assert f"the run ended {state}" in shown.stderr
    assert "--max-drop" not in shown.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownModel("there is no classifier 'a'"), ExitCode.USAGE),
        (Unauthorized("a key is needed"), ExitCode.REFUSED),
        (QuotaExceeded("too many runs"), ExitCode.REFUSED),
        (InternalError("a bug"), ExitCode.INCOMPLETE),
    ],
)
def test_an_error_is_one_line_with_the_request_id(
    play: Play, error: CounterposeError, code: ExitCode
) -> None:
    play(problem(error, request_id="r-5"))
    shown = stress_test()
    assert shown.exit_code == code
    assert shown.stderr == f"{error.code}: {error.detail} (request r-5)\n"


@pytest.mark.parametrize(
    "failure",
    [httpx.ConnectError("refused"), problem(BackendUnavailable("down")), problem(RateLimited("busy"))],
)
def test_an_unavailable_gateway_is_3(play: Play, failure: httpx.Response | Exception) -> None:
    script = play(*[failure] * 4)
    shown = stress_test()
    assert shown.exit_code == ExitCode.INCOMPLETE
    assert len(script.seen) == 4
    assert "Traceback" not in shown.output


def test_an_interrupt_is_130_and_says_how_to_continue(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: object, *, quiet: bool, look: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow, "follow_progress", interrupted)
    for arguments in (["stress-test", "demo", "--classifier", "a"], ["runs", "wait", "run-1"]):
        play(run_answer())
        shown = CliRunner().invoke(app, arguments)
        assert shown.exit_code == ExitCode.INTERRUPTED
        assert "the run continues, follow it with: counterpose runs wait run-1" in shown.stderr


def test_an_interrupt_before_the_run_exists_is_130_too(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    play()
    monkeypatch.setattr(stress_test_command, "dataset_name", interrupted)
    shown = stress_test()
    assert shown.exit_code == ExitCode.INTERRUPTED
    assert "counterpose wait" not in shown.stderr


@pytest.mark.parametrize(
    "words", [("--report", "a.html"), ("--max-drop", "0.1", "--junit", "a.xml")], ids=["report", "junit"]
)
def test_a_file_of_the_end_is_not_promised_by_a_command_that_leaves(words: tuple[str, ...]) -> None:
    shown = stress_test(*words, "--detach")
    assert shown.exit_code == ExitCode.USAGE
    assert f"--detach leaves before the run ends, so {words[-1]!r} would not be written" in shown.stderr


def test_detach_prints_the_id_of_the_run_and_exits(play: Play) -> None:
    script = play(run_answer())
    shown = stress_test("--detach")
    assert (shown.exit_code, shown.stdout) == (0, "run-1\n")
    assert len(script.seen) == 1


def test_the_id_of_a_run_is_printed_before_the_run_is_followed(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(run: object, *, quiet: bool) -> None:
        raise BackendUnavailable("the connection is lost")

    monkeypatch.setattr(follow, "follow_progress", lost)
    play(run_answer())
    shown = stress_test()
    first, second = shown.stderr.splitlines()[:2]
    assert first == "run run-1"
    assert re.fullmatch(r"watch: http://[a-z0-9.:]+/ui/runs/run-1", second)
    assert shown.stdout == ""


def test_the_report_is_written(play: Play, tmp_path: Path) -> None:
    play(*ended(SMALL), httpx.Response(200, text="<html>é</html>"))
    shown = stress_test("--report", str(tmp_path / "report.html"))
    assert shown.exit_code == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "<html>é</html>"


def test_a_report_path_that_cannot_be_written_is_rejected_before_the_run(play: Play, tmp_path: Path) -> None:
    script = play()
    shown = stress_test("--report", str(tmp_path / "absent" / "report.html"))
    assert shown.exit_code == ExitCode.USAGE
    assert script.seen == []


def test_a_report_may_go_to_a_folder(play: Play, tmp_path: Path) -> None:
    play(*ended(SMALL), httpx.Response(200, text="<html>é</html>"))
    shown = stress_test("--report", str(tmp_path))
    assert shown.exit_code == 0
    assert f"report written to {tmp_path / 'report.html'}" in shown.stderr
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "<html>é</html>"


def test_a_report_that_cannot_be_saved_after_the_run_costs_no_figures(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *arguments: object, **options: object) -> int:
        raise OSError(28, "No space left on device")

    play(*ended(LARGE), httpx.Response(200, text="<html>"))
    monkeypatch.setattr(Path, "write_text", full)
    shown = stress_test("--report", str(tmp_path / "report.html"), "--max-drop", "0.1")
    assert "No space left" in shown.stderr
    assert "leaning" in shown.stdout
    assert shown.exit_code == ExitCode.USAGE


def ended_by(code: int | None, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """`main` as the console script calls it."""
    monkeypatch.setattr(sys, "argv", ["counterpose", *arguments])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == code


def test_the_console_script_exits_with_the_code_of_the_command(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(ok({"services": []}))
    ended_by(0, monkeypatch, "services")
    ended_by(2, monkeypatch, "no-such-verb")


def test_a_bug_of_ours_is_3_and_never_looks_like_a_failed_max_drop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(main, "app", broken)
    ended_by(ExitCode.INCOMPLETE, monkeypatch)
    assert "a bug" in capsys.readouterr().err


def test_with_json_an_error_is_a_problem_on_standard_output(play: Play) -> None:
    play(problem(UnknownModel("there is no classifier 'a'"), request_id="r-5"))
    shown = stress_test("--json", "--detach")
    assert shown.exit_code == ExitCode.USAGE
    told = json.loads(shown.stdout)
    assert (told["code"], told["detail"], told["request_id"]) == (
        "unknown-model",
        "there is no classifier 'a'",
        "r-5",
    )
    # A log keeps its line.
    assert "unknown-model: there is no classifier 'a'" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        (["services", "--nonsense", "--json"], "No such option: --nonsense"),
        (["stress-test", "--json"], "Missing argument 'DATASET'."),
        (["stress-tst", "demo", "--json"], "No such command 'stress-tst'. Did you mean 'stress-test'?"),
    ],
)
def test_with_json_wrong_arguments_are_a_problem_on_standard_output(
    arguments: list[str], detail: str
) -> None:
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == ExitCode.USAGE
    told = json.loads(shown.stdout)
    assert (told["code"], told["detail"]) == ("invalid-request", detail)


def test_without_json_an_error_is_no_json(play: Play) -> None:
    play(problem(UnknownModel("no a")))
    assert stress_test("--json").stdout.startswith("{")
    play(problem(UnknownModel("no a")))
    assert stress_test().stdout == ""
