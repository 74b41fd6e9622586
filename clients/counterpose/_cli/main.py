"""``counterpose``: every command is registered here, under the SDK's verbs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import counterpose
from counterpose._cli import (
    adversarial_dataset,
    audit,
    bug_hunt,
    classifiers,
    dataset_interface,
    datasets,
    demo,
    gate,
    jobs,
    mlflow_gate,
    prove,
    push,
    results,
    runs,
    shift_benchmark,
    stack,
    stress_test,
    submit,
    thresholds,
    transfer,
    usage,
    webhooks,
)
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.groups import examples
from counterpose._cli.terminal import print_result

EPILOG = examples(
    "counterpose demo",
    "counterpose stress-test photos/ --classifier timm:resnet50 --report report.html",
    "counterpose open",
    codes=True,
)

app = typer.Typer(
    help="Find where an image classifier breaks.",
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_result(f"counterpose {counterpose.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", metavar="", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]


@app.callback()
def _counterpose(context: typer.Context, version: Version = False) -> None:
    if context.invoked_subcommand is None:
        print_result(context.get_help())


HERE, METHODS = "This machine", "Methods"
RESULTS, RESOURCES = "Results", "Runs and resources"

app.command("up", rich_help_panel=HERE)(stack.up)
app.command("down", rich_help_panel=HERE)(stack.down)
app.command("status", rich_help_panel=HERE)(stack.status)
app.command("demo", rich_help_panel=HERE, epilog=examples("counterpose demo --out demo", codes=True))(
    demo.demo
)

app.command("stress-test", rich_help_panel=METHODS, epilog=stress_test.EXAMPLES)(stress_test.stress_test)
app.command("prove", rich_help_panel=METHODS, epilog=prove.EXAMPLES)(prove.prove)
app.command("apply", rich_help_panel=METHODS, epilog=stress_test.APPLY_EXAMPLES)(stress_test.apply)
app.command("dataset-interface", rich_help_panel=METHODS, epilog=dataset_interface.EXAMPLES)(
    dataset_interface.dataset_interface
)
app.command("generate", rich_help_panel=METHODS, epilog=dataset_interface.GENERATE_EXAMPLES)(
    dataset_interface.generate
)
app.command("shift-benchmark", rich_help_panel=METHODS, epilog=shift_benchmark.EXAMPLES)(
    shift_benchmark.shift_benchmark
)
app.command("bug-hunt", rich_help_panel=METHODS, epilog=bug_hunt.EXAMPLES)(bug_hunt.bug_hunt)
app.command("adversarial-dataset", rich_help_panel=METHODS, epilog=adversarial_dataset.EXAMPLES)(
    adversarial_dataset.adversarial_dataset
)
app.command("register", rich_help_panel=METHODS, epilog=adversarial_dataset.REGISTER_EXAMPLES)(
    adversarial_dataset.register
)
app.command("transfer", rich_help_panel=METHODS, epilog=transfer.EXAMPLES)(transfer.transfer)
app.command("gate", rich_help_panel=METHODS, epilog=gate.EXAMPLES)(gate.gate)
app.command("mlflow-gate", rich_help_panel=METHODS, epilog=mlflow_gate.EXAMPLES)(mlflow_gate.mlflow_gate)
app.command("freeze", rich_help_panel=METHODS, epilog=gate.FREEZE_EXAMPLES)(gate.freeze)
app.command("compare-prompts", rich_help_panel=METHODS, epilog=shift_benchmark.PROMPT_EXAMPLES)(
    shift_benchmark.compare_prompts
)

app.add_typer(submit.app, name="submit", rich_help_panel=METHODS)

app.command("show", rich_help_panel=RESULTS, epilog=runs.SHOW_EXAMPLES)(runs.show_run)
app.command("open", rich_help_panel=RESULTS, epilog=runs.OPEN_EXAMPLES)(runs.open_run)
app.command("report", rich_help_panel=RESULTS, epilog=results.REPORT_EXAMPLES)(results.report)
app.command("audit", rich_help_panel=RESULTS, epilog=audit.EXAMPLES)(audit.audit)
app.command("export", rich_help_panel=RESULTS, epilog=results.EXPORT_EXAMPLES)(results.export)

app.add_typer(push.app, name="push", rich_help_panel=RESULTS)

app.add_typer(runs.app, name="runs", rich_help_panel=RESOURCES)
app.add_typer(jobs.app, name="jobs", rich_help_panel=RESOURCES)
app.add_typer(webhooks.app, name="webhooks", rich_help_panel=RESOURCES)
app.add_typer(thresholds.app, name="thresholds", rich_help_panel=RESOURCES)
app.add_typer(datasets.app, name="datasets", rich_help_panel=RESOURCES)
app.add_typer(classifiers.app, name="classifiers", rich_help_panel=RESOURCES)
app.command("services", rich_help_panel=RESOURCES)(stack.services)
app.command("usage", rich_help_panel=RESOURCES)(usage.usage)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except Exception:
        # A bug of ours must not exit with 1, which says that a drop exceeded --max-drop.
        sys.excepthook(*sys.exc_info())
        raise SystemExit(ExitCode.INCOMPLETE) from None
