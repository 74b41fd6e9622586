"""The command line in this process, against a scripted gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.testing import CliRunner

from counterpose._cli.main import app
from fakes.sdk import Script

Play = Callable[..., Script]
"""Plays answers to whatever the command asks, in order."""


def run(*arguments: str) -> Any:
    """Run ``counterpose`` with these arguments."""
    return CliRunner().invoke(app, list(arguments))
