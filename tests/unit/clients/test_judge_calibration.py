"""``calibrate-judges``: verdicts of a run against labels of a file, by both clients and by the command."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import httpx
import pytest

from counterpose._cli.exit_code import ExitCode
from counterpose_core.contract.judges import Calibration, Judgement, Verdict
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_test_thresholds import GateThresholds
from counterpose_core.errors import InvalidRequest
from fakes.command import Play, run
from fakes.sdk import Session, a_run, ok
from unit.clients.test_audit import an_item, results

GATE = GateThresholds(direction=0.25)
NAMED = ("calibrate-judges", "run-1", "--against", "ratings")


def judged(ordinal: int, **verdicts: Verdict) -> Item:
    item = an_item(ordinal)
    told = {name: Judgement(verdict=verdict) for name, verdict in verdicts.items()}
    assert item.result is not None
    return item.model_copy(update={"result": item.result.model_copy(update={"judgements": told})})


def the_run() -> httpx.Response:
    run = a_run("completed", 4).model_copy(
        update={"resolved_config": {"gate": GATE.model_dump(), "judged_by": {"judge": "vlm at judges.test"}}}
    )
    return ok(run.model_dump_json())


def answered() -> httpx.Response:
    return results(
        judged(0, clip="yes", judge="yes"),
        judged(1, clip="yes", judge="no"),
        judged(2, clip="no", judge="late"),
        an_item(3),
    )


COUNTS = {
    "clip": Calibration(
        against="ratings",
        right_kept=1,
        wrong_kept=1,
        wrong_dropped=0,
        right_dropped=1,
        without_vote=0,
        gate=GATE,
    ),
    "judge": Calibration(
        against="ratings",
        right_kept=1,
        wrong_kept=0,
        wrong_dropped=1,
        right_dropped=0,
        without_vote=1,
        right_without_vote=1,
        model="vlm at judges.test",
    ),
}


def test_verdicts_are_counted_against_the_labels_of_their_items(kind: str) -> None:
    session = Session(kind, the_run(), answered())
    handle = session(lambda client: client.stress_tests.get("run-1"))
    labels = {"run-1.0": True, "run-1.1": False, "run-1.2": True}
    assert session(lambda _: handle.calibrate_judges(labels, against="ratings")) == COUNTS


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"run-1.3": True}, "no judge has said anything of the item 'run-1.3'"),
        ({"run-1.9": True}, "no judge has said anything of the item 'run-1.9'"),
        ({}, "there is no label"),
    ],
)
def test_labels_without_a_verdict_are_refused(kind: str, labels: dict[str, bool], said: str) -> None:
    session = Session(kind, the_run(), answered())
    handle = session(lambda client: client.stress_tests.get("run-1"))
    with pytest.raises(InvalidRequest, match=said):
        session(lambda _: handle.calibrate_judges(labels, against="ratings"))


def test_the_command_writes_what_the_suite_s_file_takes(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("item,right\nrun-1.0,yes\nrun-1.1,no\nrun-1.2,yes\n")
    play(the_run(), answered())
    shown = run(*NAMED, "--labels", str(file))
    assert shown.exit_code == 0
    told = tomllib.loads(shown.stdout)["calibrations"]
    assert {name: Calibration.model_validate(counts) for name, counts in told.items()} == COUNTS
    play(the_run(), answered())
    shown = run(*NAMED, "--labels", str(file), "--json")
    assert json.loads(shown.stdout)["judge"]["without_vote"] == 1
    assert "no model" not in shown.stderr


def test_the_command_says_that_an_older_run_recorded_no_model(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("item,right\nrun-1.0,yes\n")
    before = a_run("completed", 4).model_copy(update={"resolved_config": {"gate": GATE.model_dump()}})
    play(ok(before.model_dump_json()), answered())
    shown = run(*NAMED, "--labels", str(file))
    assert "no model of judge" in shown.stderr
    assert "no model of clip" not in shown.stderr
    assert "model" not in tomllib.loads(shown.stdout)["calibrations"]["judge"]


@pytest.mark.parametrize(
    "lines", ["item,right\nrun-1.0,perhaps\n", "right\nyes\n", "item,right\na,yes\na,no\n"]
)
def test_a_line_that_says_nothing_is_named_before_anything_is_asked(
    play: Play, tmp_path: Path, lines: str
) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(lines)
    script = play()
    shown = run(*NAMED, "--labels", str(file))
    assert shown.exit_code == ExitCode.USAGE
    assert "needs an item, once, and yes or no in right" in shown.stderr.replace("\n", " ")
    assert not script.seen
