"""``faultline``: every command is registered here, under the SDK's verbs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import faultline
from faultline._cli import (
    classifiers,
    dataset_interface,
    datasets,
    demo,
    export,
    runs,
    services,
    shift_benchmark,
    stack,
    stress_test,
    thresholds,
)
from faultline._cli.exit_code import ExitCode
from faultline._cli.terminal import print_result

EPILOG = """Examples:

faultline stress-test --dataset photos/ --classifier timm:resnet50

faultline wait 0123abcd --report report.html --max-drop 0.05

Exit codes:

0 passed, 1 --max-drop exceeded, 2 wrong usage, 3 incomplete,

4 refused, 5 inconclusive, 130 interrupted
"""

app = typer.Typer(
    help="Find where an image classifier breaks.",
    epilog=EPILOG,
    invoke_without_command=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_result(f"faultline {faultline.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", metavar="", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]


@app.callback()
def _faultline(context: typer.Context, version: Version = False) -> None:
    if context.invoked_subcommand is None:
        print_result(context.get_help())


app.command("up")(stack.up)
app.command("down")(stack.down)
app.command("status")(stack.status)
app.command("demo")(demo.demo)
app.command("stress-test")(stress_test.stress_test)
app.command("apply")(stress_test.apply)
app.command("dataset-interface")(dataset_interface.dataset_interface)
app.command("generate")(dataset_interface.generate)
app.command("shift-benchmark")(shift_benchmark.shift_benchmark)
app.command("compare-prompts")(shift_benchmark.compare_prompts)
app.command("inspections")(thresholds.inspections)
app.command("shift-thresholds")(thresholds.shift_thresholds)
app.command("set-shift-threshold", context_settings=thresholds.LEADING_MINUS)(thresholds.set_shift_threshold)
app.command("judge-shift")(thresholds.judge_shift)
app.command("export")(export.export)
app.command("wait")(runs.wait)
app.command("cancel")(runs.cancel)
app.command("resume")(runs.resume)
app.command("runs")(runs.runs)
app.command("datasets")(datasets.datasets)
app.add_typer(classifiers.app, name="classifiers")
app.command("services")(services.services)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except Exception:
        # A bug of ours must not exit with 1, which says that a drop exceeded --max-drop.
        sys.excepthook(*sys.exc_info())
        raise SystemExit(ExitCode.INCOMPLETE) from None
