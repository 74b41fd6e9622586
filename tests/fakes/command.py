"""The command line in this process, against a scripted gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from typer.testing import CliRunner

from counterpose._cli.main import app
from fakes.sdk import Script, a_summary, figure, run_answer, summary_answer

Play = Callable[..., Script]
"""Plays answers to whatever the command asks, in order."""


def run(*arguments: str) -> Any:
    """Run ``counterpose`` with these arguments."""
    return CliRunner().invoke(app, list(arguments))


def stress_test(*more: str, dataset: str = "demo") -> Any:
    """``counterpose stress-test`` on one classifier."""
    return run("stress-test", dataset, "--classifier", "leaning-resnet", *more)


def done() -> list[httpx.Response]:
    """The answers of a stress test that ends well: created, awaited, summed up."""
    return [
        run_answer(),
        run_answer("completed", 3),
        summary_answer(a_summary(steady=figure(0.0, -0.01, 0.02))),
    ]
