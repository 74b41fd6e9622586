"""The command's exit code: 0 to 5 and 130, each for what it stands for and for nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from fakes.command import Play
from fakes.sdk import a_summary, an_interventions_summary, ok, problem, run_answer, summary_answer
from faultline import _ending, _stress_test_commands, cli
from faultline._gate import Exit
from faultline.cli import app
from faultline_core.errors import (
    BackendUnavailable,
    FaultlineError,
    InternalError,
    QuotaExceeded,
    RateLimited,
    Unauthorized,
    UnknownModel,
)
from faultline_core.types import Estimate

SMALL = Estimate(estimate=0.0, low=-0.02, high=0.03, n=40)
LARGE = Estimate(estimate=0.4, low=0.3, high=0.5, n=40)
UNCLEAR = Estimate(estimate=0.1, low=-0.1, high=0.3, n=9)
NONE_LEFT = Estimate(estimate=None, low=None, high=None, n=0)


def stress_test(*more: str) -> Any:
    """``faultline stress-test`` on a dataset of the gateway's."""
    return CliRunner().invoke(app, ["stress-test", "--dataset", "demo", "--classifier", "a", *more])


def ended(drop: Estimate, state: Any = "completed") -> list[httpx.Response]:
    """The answers of a stress test that ends in a state, with a drop."""
    return [run_answer(), run_answer(state, 3), summary_answer(a_summary(leaning=drop))]


@pytest.mark.parametrize(
    ("drop", "more", "code", "word"),
    [
        (SMALL, [], Exit.PASSED, "passed"),
        (LARGE, [], Exit.FAILED, "failed"),
        (UNCLEAR, [], Exit.INCONCLUSIVE, "inconclusive"),
        (NONE_LEFT, [], Exit.INCONCLUSIVE, "inconclusive"),
        (UNCLEAR, ["--strict"], Exit.FAILED, "failed"),
        (NONE_LEFT, ["--strict"], Exit.FAILED, "failed"),
        (SMALL, ["--strict"], Exit.PASSED, "passed"),
    ],
)
@pytest.mark.parametrize("verb", ["stress-test", "wait"])
def test_the_gate_s_verdict_is_printed_and_is_the_exit_code(
    play: Play, verb: str, drop: Estimate, more: list[str], code: Exit, word: str
) -> None:
    play(*ended(drop))
    gate = ["--max-drop", "0.1", "--json", *more]
    shown = stress_test(*gate) if verb == "stress-test" else CliRunner().invoke(app, ["wait", "run-1", *gate])
    assert shown.exit_code == code
    assert f"gate {word} at a drop of 0.1" in shown.stderr
    assert json.loads(shown.stdout)["models"]["leaning"]


@pytest.mark.parametrize(("drop", "code"), [(SMALL, Exit.PASSED), (LARGE, Exit.FAILED)])
def test_of_a_run_of_one_s_own_edits_their_drops_are_judged(play: Play, drop: Estimate, code: Exit) -> None:
    play(run_answer(), run_answer("completed", 3), summary_answer(an_interventions_summary(leaning=drop)))
    shown = stress_test("--max-drop", "0.1", "--edit", "=>in the snow", "--max-edits-per-image", "0")
    assert shown.exit_code == code
    assert "leaning where “in the snow” is added" in shown.stderr


def test_without_a_gate_a_completed_run_passes_whatever_it_found(play: Play) -> None:
    play(*ended(LARGE))
    shown = stress_test()
    assert shown.exit_code == Exit.PASSED
    assert "gate" not in shown.stderr


@pytest.mark.parametrize("state", ["completed_with_failures", "failed", "cancelled"])
def test_an_incomplete_run_is_3_and_the_gate_is_not_asked(play: Play, state: str) -> None:
    play(*ended(SMALL, state))
    shown = stress_test("--max-drop", "0.1")
    assert shown.exit_code == Exit.INCOMPLETE
    assert f"the run ended {state}" in shown.stderr
    assert "gate passed" not in shown.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownModel("no classifier is named 'a'"), Exit.USAGE),
        (Unauthorized("a key is needed"), Exit.REFUSED),
        (QuotaExceeded("too many runs"), Exit.REFUSED),
        (InternalError("a bug"), Exit.INCOMPLETE),
    ],
)
def test_a_refusal_is_one_line_with_the_request_s_id(play: Play, error: FaultlineError, code: Exit) -> None:
    play(problem(error, request_id="r-5"))
    shown = stress_test()
    assert shown.exit_code == code
    assert shown.stderr == f"{error.code}: {error.detail} (request r-5)\n"


@pytest.mark.parametrize(
    "failure",
    [httpx.ConnectError("refused"), problem(BackendUnavailable("down")), problem(RateLimited("busy"))],
)
def test_a_gateway_that_cannot_be_had_is_3(play: Play, failure: httpx.Response | Exception) -> None:
    script = play(*[failure] * 4)
    shown = stress_test()
    assert shown.exit_code == Exit.INCOMPLETE
    assert len(script.seen) == 4
    assert "Traceback" not in shown.output


def test_an_interrupt_is_130_and_says_how_to_go_on(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: object, *, quiet: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_ending, "follow", interrupted)
    for arguments in (["stress-test", "--dataset", "demo", "--classifier", "a"], ["wait", "run-1"]):
        play(run_answer())
        shown = CliRunner().invoke(app, arguments)
        assert shown.exit_code == Exit.INTERRUPTED
        assert "the run goes on: faultline wait run-1" in shown.stderr


def test_an_interrupt_before_the_run_exists_is_130_too(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    play()
    monkeypatch.setattr(_stress_test_commands, "dataset_name", interrupted)
    shown = stress_test()
    assert shown.exit_code == Exit.INTERRUPTED
    assert "faultline wait" not in shown.stderr


def test_detaching_prints_the_run_s_id_and_leaves(play: Play) -> None:
    script = play(run_answer())
    shown = stress_test("--detach")
    assert (shown.exit_code, shown.stdout) == (0, "run-1\n")
    assert len(script.seen) == 1


def test_the_report_is_written(play: Play, tmp_path: Path) -> None:
    play(*ended(SMALL), httpx.Response(200, text="<html>é</html>"))
    shown = stress_test("--report", str(tmp_path / "report.html"))
    assert shown.exit_code == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "<html>é</html>"


def test_a_report_that_cannot_be_written_is_found_before_the_run(play: Play, tmp_path: Path) -> None:
    script = play()
    for path in (tmp_path, tmp_path / "absent" / "report.html"):
        shown = stress_test("--report", str(path))
        assert shown.exit_code == Exit.USAGE
    assert script.seen == []


def test_a_report_that_fails_after_the_run_costs_no_figures(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *arguments: object, **options: object) -> int:
        raise OSError(28, "No space left on device")

    play(*ended(LARGE), httpx.Response(200, text="<html>"))
    monkeypatch.setattr(Path, "write_text", full)
    shown = stress_test("--report", str(tmp_path / "report.html"), "--max-drop", "0.1")
    assert "No space left" in shown.stderr
    assert "leaning" in shown.stdout
    assert shown.exit_code == Exit.USAGE


def ended_by(code: int | None, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """`main` as the console script calls it."""
    monkeypatch.setattr(sys, "argv", ["faultline", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == code


def test_the_console_script_ends_with_the_command_s_code(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play(ok({"services": []}))
    ended_by(0, monkeypatch, "services")
    ended_by(2, monkeypatch, "no-such-verb")


def test_a_fault_of_ours_is_3_and_never_looks_like_a_failed_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "app", broken)
    ended_by(Exit.INCOMPLETE, monkeypatch)
    assert "a bug" in capsys.readouterr().err
