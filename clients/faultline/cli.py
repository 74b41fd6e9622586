"""``faultline``: the SDK's verbs from a shell."""

from __future__ import annotations

import sys

import typer

from faultline import (
    _benchmark_commands,
    _classifier_commands,
    _export_commands,
    _interface_commands,
    _run_commands,
    _stress_test_commands,
    _threshold_commands,
)
from faultline._gate import Exit
from faultline._terminal import AsJson, Url, connected, show

app = typer.Typer(help="Find where an image classifier breaks.", no_args_is_help=True, add_completion=False)

app.command("stress-test")(_stress_test_commands.stress_test)
app.command("apply")(_stress_test_commands.apply)
app.command("dataset-interface")(_interface_commands.dataset_interface)
app.command("generate")(_interface_commands.generate)
app.command("shift-benchmark")(_benchmark_commands.shift_benchmark)
app.command("compare-prompts")(_benchmark_commands.compare_prompts)
app.command("inspections")(_threshold_commands.inspections)
app.command("shift-thresholds")(_threshold_commands.shift_thresholds)
app.command("set-shift-threshold", context_settings=_threshold_commands.LEADING_MINUS)(
    _threshold_commands.set_shift_threshold
)
app.command("judge-shift")(_threshold_commands.judge_shift)
app.command("export")(_export_commands.export)
app.command("wait")(_run_commands.wait)
app.command("cancel")(_run_commands.cancel)
app.command("resume")(_run_commands.resume)
app.command("runs")(_run_commands.runs)


@app.command()
def datasets(as_json: AsJson = False, url: Url = None) -> None:
    """List the datasets."""
    with connected(url) as client:
        found = client.datasets.list()
    lines = [f"{d.name}  {d.n_sources} pictures, {len(d.classes)} classes" for d in found.datasets]
    show(found, "\n".join(lines), as_json)


app.add_typer(_classifier_commands.app, name="classifiers")


@app.command()
def services(as_json: AsJson = False, url: Url = None) -> None:
    """Say which services are ready."""
    with connected(url) as client:
        found = client.services.list()
    lines = [f"{s.service:12} {'ready' if s.ready else 'not ready ' + s.detail}" for s in found.services]
    show(found, "\n".join(lines), as_json)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except Exception:
        # An error of ours must not end in 1, which says that a gate has failed.
        sys.excepthook(*sys.exc_info())
        raise SystemExit(Exit.INCOMPLETE) from None
