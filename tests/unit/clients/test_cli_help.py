"""What ``faultline --help`` and each command's ``--help`` say, held against one file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import faultline
from fakes.command import run
from faultline._cli.main import app

SNAPSHOT = Path(__file__).with_name("help.txt")
WIDTH = 100
WITHOUT_GATEWAY = {"up", "down", "demo", "status"}
"""Commands that start or stop the gateway, so that they have no address to ask for."""


def pages(command: Any, name: str, parent: Any = None) -> Iterator[str]:
    """The help of a command and of those below it, without the frames that depend on the terminal."""
    command.rich_markup_mode = None
    context = type(command).context_class(
        command, info_name=name, parent=parent, terminal_width=WIDTH, **command.context_settings
    )
    yield f"$ {context.command_path} --help\n{command.get_help(context)}"
    for below, found in getattr(command, "commands", {}).items():
        yield from pages(found, below, context)


def test_help_says_what_the_snapshot_says() -> None:
    shown = "\n\n".join(pages(typer.main.get_command(app), "faultline")) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(shown, encoding="utf-8")
    assert shown == SNAPSHOT.read_text(encoding="utf-8"), "run with UPDATE_SNAPSHOTS=1 and read the diff"


def test_every_command_of_the_gateway_offers_json_and_its_address() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
    for name, command in commands.items():
        if name in WITHOUT_GATEWAY:
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--json", "--url"} <= options, name


def test_a_bare_call_prints_the_help_and_passes() -> None:
    bare = run()
    assert bare.exit_code == 0
    assert bare.stdout.strip() == run("--help").stdout.strip()


def test_the_short_option_prints_a_command_s_help() -> None:
    short = run("runs", "-h")
    assert short.exit_code == 0
    assert short.stdout == run("runs", "--help").stdout


def test_the_version_is_printed_alone() -> None:
    shown = run("--version")
    assert (shown.exit_code, shown.stdout) == (0, f"faultline {faultline.__version__}\n")
