"""A plugin of pytest that appends each test's outcome to a file, so that a killed run loses none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

FILE = "COUNTERPOSE_FAULT_OUTCOMES"
"""The variable that names the file."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome of the call, or of a setup that failed or skipped it."""
    if report.when == "call" or report.outcome != "passed":
        line = {"test": report.nodeid, "outcome": report.outcome, "why": _why(report)}
        with Path(os.environ[FILE]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _why(report: pytest.TestReport) -> str | None:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return None
