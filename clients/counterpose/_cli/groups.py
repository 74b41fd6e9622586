"""Commands under a noun, and what stands below the help of a command: examples and exit codes."""

from __future__ import annotations

import sys
from contextvars import ContextVar

import typer

EXIT_CODES = (
    "Exit codes: 0 passed, 1 --max-drop exceeded, 2 wrong usage, 3 incomplete, 4 refused, 5 inconclusive, "
    "130 interrupted."
)

AS_JSON: ContextVar[bool] = ContextVar("AS_JSON", default=False)
"""Whether the command that is called was given ``--json``."""


def examples(*commands: str, codes: bool = False) -> str:
    """Return the text below a command's help: examples, and exit codes for a command that ends with a run."""
    # Blank lines between them: help joins other lines to one paragraph.
    lines = ["Example:" if len(commands) == 1 else "Examples:", *commands, *([EXIT_CODES] if codes else [])]
    return "\n\n".join(lines)


def group(about: str) -> typer.Typer:
    """Return an empty group of commands, which prints its help when it is called without a command."""
    made = typer.Typer(help=about, invoke_without_command=True, add_completion=False)

    @made.callback()
    def bare(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            sys.stdout.write(f"{context.get_help()}\n")

    return made
