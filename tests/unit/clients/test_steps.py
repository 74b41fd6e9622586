"""Long steps of a command: a log hears of them again and again, and of short ones nothing."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from counterpose._cli import steps as steps_module
from counterpose._cli.steps import Steps, going_on

LONG_S = 30.0
"""More than a busy machine takes to write a line."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a log has, with lines every few milliseconds."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=False)
    monkeypatch.setattr(steps_module, "LINE_S", 0.01)
    monkeypatch.setattr(steps_module, "Console", lambda **_: console)
    return text


def heard(text: io.StringIO, line: str) -> bool:
    """Whether the log gets a line that begins so."""
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        if any(each.startswith(line) for each in text.getvalue().splitlines()):
            return True
        time.sleep(0.005)
    return False


def test_a_long_step_is_told_again_and_a_step_within_it_takes_its_line(log: io.StringIO) -> None:
    with going_on("planning the run"):
        assert heard(log, "planning the run: ")
        with going_on("uploading the images of cats/"):
            assert heard(log, "uploading the images of cats/: ")
        assert steps_module._outer[-1].present == "planning the run"


def test_a_short_step_has_no_line_and_nothing_is_told_after_the_end(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_module, "LINE_S", LONG_S)
    with going_on("summing up"):
        pass
    with pytest.raises(ValueError, match="refused"), going_on("planning the run"):
        raise ValueError("refused")
    assert log.getvalue() == ""
    with going_on("again, after an error"):
        assert steps_module._outer


def test_the_steps_of_a_start_are_told_at_once_and_again(log: io.StringIO) -> None:
    with Steps() as steps:
        steps.tell("preparing the demo's images")
        assert log.getvalue().splitlines()[0] == "preparing the demo's images"
        assert heard(log, "preparing the demo's images: ")
