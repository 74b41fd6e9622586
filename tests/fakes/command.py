"""The command line in this process, against a scripted gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.testing import CliRunner

from fakes.sdk import Script
from faultline._cli.main import app

Play = Callable[..., Script]
"""Plays answers to whatever the command asks, in order."""


def run(*arguments: str) -> Any:
    """Run ``faultline`` with these arguments."""
    return CliRunner().invoke(app, list(arguments))
