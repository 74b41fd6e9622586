"""``counterpose``: every command is listed here, under the SDK's verbs, and imported when it is called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

import counterpose
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.groups import AS_JSON, examples
from counterpose_core.kinds import KINDS

EPILOG = examples(
    "counterpose demo",
    "counterpose up",
    "counterpose stress-test demo --classifier leaning-resnet --report report.html",
    "counterpose open",
    codes=True,
)

COMMANDS: dict[str, dict[str, str]] = {
    "This machine": {
        "up": "Start Counterpose on this machine and leave it running.",
        "down": "Stop what `counterpose up` started.",
        "status": "Show what runs, where, since when, and whether it is ready; exit code 3 if it is not.",
        "demo": "Test classifiers on rendered or real images and write the report.",
    },
    "Methods": {
        **{kind.name: kind.about for kind in KINDS.values()},
        "prove": "Test one finding of a run on more images; repeat it as often as you like.",
        "apply": "Apply one finding's edit or operation to every image of the run's dataset, or another's.",
        "compare-editors": "Compare editors on equal edits of your images: what each keeps, moves and costs.",
        "make-pairs": "Let an editor of your own change each image of a folder, for `stress-test --pairs`.",
        "generate": "Generate images of one class of an interface, under a shift or without.",
        "register": "Make a dataset of the images that an adversarial dataset kept, for other methods.",
        "freeze": "Write the digest of a run's counterfactuals to a file, so that a gate compares no others.",
        "compare-prompts": "Compare prompts of one class, by its token and by its plain name.",
        "submit": "Run a method as a job of a Ray cluster: the command's own options, and where to run it.",
    },
    "Results": {
        "show": "Show a run's state and its summary as it stands.",
        "open": "Show a run's report in the browser; print the file that holds it.",
        "report": "Write a run's report to an HTML file.",
        "audit": "Recompute a run's invariants; exit with 1 if one does not hold.",
        "calibrate-judges": "Hold a run's judges against labels that people gave.",
        "export": "Export a run's images with provenance and a dataset card.",
        "push": "Push images and figures to the Hugging Face Hub, with the token in HF_TOKEN.",
    },
    "Runs and resources": {
        "services": "Show which services are ready; exit code 3 if none is.",
        "usage": "Show what your tenant has used this month, what it stores, and its quotas.",
        "runs": "List, follow and read runs of every kind.",
        "jobs": "List, show and cancel jobs of Ray clusters.",
        "webhooks": "Let addresses be told about runs that end.",
        "thresholds": "Show and set the thresholds of a shift benchmark.",
        "datasets": "List, add, import and show datasets.",
        "classifiers": "List, check and serve classifiers.",
    },
}
"""The first line of each command's help, by its panel: the list is printed without importing the commands,
which takes a second."""

_HOMES = {
    "up": "stack",
    "down": "stack",
    "status": "stack",
    "services": "stack",
    "apply": "stress_test",
    "generate": "dataset_interface",
    "register": "adversarial_dataset",
    "freeze": "gate",
    "compare-prompts": "shift_benchmark",
    "show": "runs",
    "open": "runs",
    "report": "results",
    "export": "results",
}
"""The module of a command that has not its name."""


@cache
def command_of(name: str) -> Any:
    """Import a command: the function that is called as it is, or the group that is its module's ``app``."""
    word = name.replace("-", "_")
    module = importlib.import_module(f"counterpose._cli.{_HOMES.get(name, word)}")
    function = getattr(module, f"{word}_run", None) or getattr(module, word, None)
    if function is None:
        return typer.main.get_command(module.app)
    own = None if name in _HOMES else getattr(module, "EXAMPLES", None)
    alone = typer.Typer(add_completion=False)
    alone.command(name, epilog=getattr(module, f"{word.upper()}_EXAMPLES", own))(function)
    return typer.main.get_command(alone)


class _Imported(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __init__(self) -> None:
        self._names = [name for panel in COMMANDS.values() for name in panel]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return command_of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_UsageError: Any = typer.BadParameter.__base__
"""Click's error of wrong arguments: newer versions of typer have a click of their own."""


class _Listed(TyperGroup):
    """The commands of ``counterpose``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": {}})
        self.commands = cast("Any", _Imported())

    def list_commands(self, context: Any) -> list[str]:
        """Return the names, in the order of the list."""
        return list(self.commands)

    def get_command(self, context: Any, name: str) -> Any:
        """Return what help and completion show of a command."""
        for panel, listed in COMMANDS.items():
            if name in listed:
                return TyperCommand(name, help=listed[name], rich_help_panel=panel)
        return None

    def invoke(self, context: Any) -> Any:
        """Call a command; with ``--json``, arguments that it does not take are told in JSON, too."""
        AS_JSON.set("--json" in context.args)
        try:
            return super().invoke(context)
        except _UsageError as error:
            if AS_JSON.get():
                # Imported only now, as the commands are.
                terminal = importlib.import_module("counterpose._cli.terminal")
                terminal.print_problem(terminal.InvalidRequest(error.format_message()))
            raise

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        """Return the command that is called, and its arguments."""
        name, found, rest = super().resolve_command(context, arguments)
        return name, None if found is None or name is None else self.commands[name], rest


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"counterpose {counterpose.__version__}\n")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", metavar="", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]

app = typer.Typer(
    cls=_Listed,
    help="Find where an image classifier breaks.",
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _counterpose(context: typer.Context, version: Version = False) -> None:
    if context.invoked_subcommand is None:
        sys.stdout.write(f"{context.get_help()}\n")


def main() -> None:
    """Run the command line."""
    try:
        app()
    except Exception:
        # A bug of ours must not exit with 1, which says that a drop exceeded --max-drop.
        sys.excepthook(*sys.exc_info())
        raise SystemExit(ExitCode.INCOMPLETE) from None
