"""What ``counterpose --help`` and each command's ``--help`` say, held against one file."""

from __future__ import annotations

import inspect
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

import counterpose
from counterpose._cli import demo
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.groups import EXIT_CODES
from counterpose._cli.main import COMMANDS, app
from counterpose._stack.stack import DEMO_DATASET
from counterpose_core.suite import load_suite
from fakes.command import run

SNAPSHOT = Path(__file__).with_name("help.txt")
WIDTH = 100
WITHOUT_GATEWAY = {"up", "down", "demo", "status", "classifiers serve", "make-pairs"}
"""Commands that start or stop the gateway, or need none, so that they have no address to ask for."""


def pages(command: Any, name: str, parent: Any = None) -> Iterator[str]:
    """The help of a command and of those below it, without the frames that depend on the terminal."""
    command.rich_markup_mode = None
    context = type(command).context_class(
        command, info_name=name, parent=parent, terminal_width=WIDTH, **command.context_settings
    )
    yield f"$ {context.command_path} --help\n{command.get_help(context)}"
    for below, found in getattr(command, "commands", {}).items():
        yield from pages(found, below, context)


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands that do something, without the nouns that group them."""
    nested = getattr(command, "commands", None)
    if nested is None:
        yield name, command
    for below, found in (nested or {}).items():
        yield from leaves(f"{name} {below}", found)


def test_help_says_what_the_snapshot_says() -> None:
    shown = "\n\n".join(pages(typer.main.get_command(app), "counterpose")) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(shown, encoding="utf-8")
    assert shown == SNAPSHOT.read_text(encoding="utf-8"), "run with UPDATE_SNAPSHOTS=1 and read the diff"


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    listed = {name: about for panel in COMMANDS.values() for name, about in panel.items()}
    group: Any = typer.main.get_command(app)
    assert list(group.commands) == list(listed)
    for name, about in listed.items():
        told = inspect.cleandoc(group.commands[name].help).partition("\n\n")[0]
        assert " ".join(told.split()) == about


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ()])
def test_the_list_of_commands_is_printed_without_importing_one(arguments: tuple[str, ...]) -> None:
    call = f"import sys; sys.argv[1:] = {arguments!r}; from counterpose._cli.main import app; app()"
    # Not by the exit of the process: typer leaves with SystemExit.
    seen = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    done = subprocess.run([sys.executable, "-c", seen + call], capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "counterpose._cli.main" in imported
    heavy = {
        "httpx",
        "numpy",
        "counterpose_core.types",
        "counterpose._sync",
        "counterpose._cli.runs",
    }
    assert imported & heavy == set()


def test_every_command_of_the_gateway_offers_json_and_its_address() -> None:
    for name, command in leaves("counterpose", typer.main.get_command(app)):
        if name.removeprefix("counterpose ") in WITHOUT_GATEWAY:
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--json", "--url"} <= options, name


def test_a_bare_call_prints_the_help_and_passes() -> None:
    bare = run()
    assert bare.exit_code == 0
    assert bare.stdout.strip() == run("--help").stdout.strip()


def test_the_short_option_prints_a_command_s_help() -> None:
    short = run("runs", "list", "-h")
    assert short.exit_code == 0
    assert short.stdout == run("runs", "list", "--help").stdout


@pytest.mark.parametrize("noun", ["runs", "thresholds", "datasets", "classifiers"])
def test_a_noun_alone_prints_its_verbs_and_passes(noun: str) -> None:
    bare = run(noun)
    assert bare.exit_code == 0
    assert bare.stdout.strip() == run(noun, "--help").stdout.strip()


def test_every_value_has_a_name_of_its_own() -> None:
    for name, command in leaves("counterpose", typer.main.get_command(app)):
        nameless = [one.name for one in command.params if one.metavar is None and one.name != "help"]
        assert nameless == [], name


def test_the_examples_of_every_command_are_commands_with_their_options() -> None:
    known = dict(leaves("counterpose", typer.main.get_command(app)))
    for name, command in known.items():
        for line in (command.epilog or "").splitlines():
            if line.startswith("counterpose "):
                words = shlex.split(line)
                called = max((each for each in known if line.startswith(each)), key=len)
                options = {option for one in known[called].params for option in one.opts}
                assert called == name
                assert {word for word in words if word.startswith("--")} <= options, line


def test_the_examples_that_start_a_run_show_something_with_the_suite_that_comes_with_counterpose() -> None:
    """A dataset and classifiers that are there, a planted bug; photographs are only looked at."""
    known = load_suite("miniature").classifiers.models.keys()
    assert {*demo.CLASSIFIERS, *demo.HUNTED} <= known
    group: Any = typer.main.get_command(app)
    epilogs = {
        "": group.epilog,
        **{name: group.commands[name].epilog for name in ("stress-test", "bug-hunt")},
    }
    for name, epilog in epilogs.items():
        lines = [shlex.split(line) for line in epilog.splitlines() if line.startswith("counterpose ")]
        runs = [words for words in lines if words[1] in ("stress-test", "bug-hunt")]
        assert runs, name
        assert "--dry-run" not in runs[0], name
        for words in runs:
            following = dict(pairwise(words))
            if words[1] == "bug-hunt":
                assert following["--classifier"] in demo.HUNTED
                assert following["--label"] == demo.LABEL
            elif words[2] == DEMO_DATASET:
                assert following["--classifier"] in demo.CLASSIFIERS
            else:
                assert "--dry-run" in words or "--anyway" in words, words


def test_a_command_that_ends_with_a_run_lists_its_exit_codes() -> None:
    told = {
        name
        for name, command in leaves("", typer.main.get_command(app))
        if "Exit codes" in (command.epilog or "")
    }
    follow = {
        " stress-test",
        " apply",
        " prove",
        " dataset-interface",
        " shift-benchmark",
        " bug-hunt",
        " adversarial-dataset",
        " transfer",
        " gate",
        " compare-prompts",
    }
    submitted = {f" submit{name}" for name in (" stress-test", " shift-benchmark", " bug-hunt", " gate")}
    assert told == follow | submitted | {" demo", " runs wait"}
    for code in ExitCode:
        assert f"{code.value} " in EXIT_CODES


def test_the_version_is_printed_alone() -> None:
    shown = run("--version")
    assert (shown.exit_code, shown.stdout) == (0, f"counterpose {counterpose.__version__}\n")
