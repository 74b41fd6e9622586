"""How far a run is: over all of its stages, never back, and in a log every ten seconds."""

from __future__ import annotations

from typing import Any

import pytest

from counterpose._cli.progress import follow_progress
from counterpose._progress import Forecast, ProgressLine
from counterpose_core.contract.runs import Run
from fakes.command import Play
from fakes.sdk import Session, a_run, ok, run_answer

CONFIRMED: dict[str, Any] = {
    "request": {"dataset": "demo", "classifiers": ["leaning"], "max_edits_per_image": 9, "seed": 0,
                "lance_r_edits_per_image": 0, "interventions": [{"removed": "", "added": "in the snow"}]},
    "confirmation": {"screened": 8, "fresh": 4, "budget": 60, "reason": None},
}  # fmt: skip
"""Of a run whose screen has 100 items, which may come to have 160."""


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def going(total: int, ended: int, stage: int = 1, config: dict[str, Any] | None = None, **fields: Any) -> Run:
    """A run of which so many items have ended."""
    counts = {"total": total, "done": ended, "pending": total - ended}
    state = fields.pop("state", "in_progress")
    made = a_run(state)
    return made.model_copy(
        update={
            "request_counts": made.request_counts.model_copy(update=counts),
            "resolved_config": CONFIRMED if config is None else config,
            "stage": stage,
        }
        | fields
    )


def test_a_forecast_counts_later_stages_from_the_start_and_never_goes_back() -> None:
    forecast, shares, items = Forecast(Clock()), [], []
    for run in (going(100, 50), going(100, 100), going(110, 101, 2), going(140, 120, 3),
                going(140, 140, 3, state="completed")):  # fmt: skip
        forecast.see(run)
        shares.append(forecast.share)
        items.append(forecast.items)
    assert shares == sorted(shares)
    assert shares[1] == 100 / 160
    assert items == [
        "50 of at most 160 items", "100 of at most 160 items", "101 of at most 160 items",
        "120 of at most 160 items", "140 of 140 items",
    ]  # fmt: skip
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("run", "most"),
    [
        (going(100, 0, config={"confirmation": CONFIRMED["confirmation"] | {"reason": "too few"}}), 100),
        (going(100, 0, config={}), 100),
        (going(30, 0, config={"confirmation": None, "proof": {"images": 20}}), 70),
        (going(30, 0, config={"request": {"budget": {"images": 600}}}, kind="bug-hunt"), 600),
        (going(700, 0, config={"request": {"budget": {"images": 600}}}, kind="bug-hunt"), 700),
        (going(30, 0, config={"request": {"images": 90}}, kind="adversarial-dataset"), 90),
        (going(110, 100, stage=2), 160),
        (going(110, 100, stage=2, config=CONFIRMED | {"request": {"of": "another version"}}), 110),
        (going(110, 100, stage=2, config=CONFIRMED | {"confirmation": None}), 110),
        (going(140, 100, stage=3), 140),
        (going(60, 40, stage=2, config={"proof": {"images": 20}}), 60),
    ],
)
def test_a_configuration_says_how_many_items_may_come(run: Run, most: int) -> None:
    forecast = Forecast(Clock())
    forecast.see(run)
    assert forecast.most == most


def test_the_time_that_is_left_is_that_of_the_whole_run() -> None:
    clock = Clock()
    forecast = Forecast(clock)
    forecast.see(going(100, 0))
    assert forecast.left == ""
    clock.now = 90.0
    forecast.see(going(100, 90))
    # 70 items of at most 160 are left, at one a second.
    assert forecast.left == "at most about 1 min left"
    clock.now = 120.0
    forecast.see(going(160, 120, 3))
    assert forecast.left == "less than a minute left"
    forecast.see(going(160, 160, 3, state="completed"))
    assert forecast.left == ""


def test_whoever_follows_from_the_second_stage_on_sees_no_time_left_that_grows() -> None:
    clock = Clock()
    forecast, left = Forecast(clock), []
    forecast.see(going(110, 90, 2))
    for second, run in ((60, going(110, 105, 2)), (80, going(110, 110, 2)), (81, going(160, 110, 3)),
                        (120, going(160, 120, 3))):  # fmt: skip
        clock.now = float(second)
        forecast.see(run)
        left.append(forecast.left)
    assert left == [
        "at most about 4 min left", "at most about 3 min left", "about 3 min left", "about 3 min left",
    ]  # fmt: skip


def test_a_run_that_is_followed_late_is_timed_from_then() -> None:
    clock = Clock()
    clock.now = 1000.0
    forecast = Forecast(clock)
    forecast.see(going(2000, 1000, config={}))
    clock.now = 1060.0
    forecast.see(going(2000, 1010, config={}))
    assert forecast.left == "about 99 min left"


def test_a_run_that_slows_down_is_judged_by_its_last_minute() -> None:
    clock = Clock()
    forecast = Forecast(clock)
    for second, ended in ((0, 0), (60, 48), (120, 49), (180, 50)):
        clock.now = float(second)
        forecast.see(going(54, ended, config={}))
    # At the pace of the whole run the last four would take 15 s.
    assert forecast.left == "about 4 min left"


def test_a_run_whose_first_items_take_long_says_what_the_time_left_waits_for() -> None:
    clock, said = Clock(), []
    forecast = Forecast(clock)
    for second, ended in ((0, 0), (20, 0), (40, 3), (50, 20)):
        clock.now = float(second)
        forecast.see(going(640, ended, config={}))
        said.append(forecast.left)
    assert said[:3] == ["", "", "the time left is told from 10 ended items on"]
    assert said[3].endswith("min left")


def test_a_phase_that_is_planned_is_told_in_place_of_a_time() -> None:
    forecast = Forecast(Clock())
    forecast.see(going(100, 100, state="finalizing"))
    assert forecast.left == "planning the next phase"


def test_without_a_terminal_a_line_comes_every_ten_seconds_and_at_the_end(capsys: Any) -> None:
    clock = Clock()
    line = ProgressLine(clock)
    for second in range(0, 26, 2):
        clock.now = float(second)
        line.show(going(100, 4 * second, config={}))
    clock.now += 1.0
    line.show(going(100, 100, config={}, state="completed"))
    shown = [text.split(": ")[1].split(" ·")[0] for text in capsys.readouterr().err.splitlines()]
    assert shown == ["0 of 100 items", "40 of 100 items", "80 of 100 items", "100 of 100 items"]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_command_in_a_log_tells_how_far_its_run_is(play: Play, capsys: Any, quiet: bool) -> None:
    play()
    session = Session("sync", run_answer(), ok(going(100, 50, config={}).model_dump_json()),
                      ok(going(100, 100, config={}, state="completed").model_dump_json()))  # fmt: skip
    run = session(lambda client: client.stress_tests.get("run-1"))
    follow_progress(run, quiet=quiet)
    told = capsys.readouterr()
    assert told.out == ""
    lines = [
        "run run-1 in_progress: 50 of 100 items · 50 kept · 0 filtered · 0 failed",
        "run run-1 completed: 100 of 100 items · 100 kept · 0 filtered · 0 failed",
    ]
    assert told.err.splitlines() == ([] if quiet else lines)


def test_a_terminal_gets_a_bar_that_fills_once(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    answers = [going(100, 100), going(140, 120, 3), going(140, 140, 3, state="completed")]
    session = Session("sync", run_answer(), *(ok(each.model_dump_json()) for each in answers))
    run = session(lambda client: client.stress_tests.get("run-1"))
    follow_progress(run, quiet=False)
    shown = capsys.readouterr().err
    assert "140 of 140 items" in shown
    assert "140 kept" in shown
