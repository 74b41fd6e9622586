"""``faultline demo``: a first report, of a real run, with nothing but this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from faultline._cli import interface_demo
from faultline._cli.exit_code import ExitCode, exit_for_state
from faultline._cli.progress import follow_progress
from faultline._cli.stack import Port, ServicesPort, State, span
from faultline._cli.steps import Steps
from faultline._cli.terminal import exit_on_error, print_note, print_result
from faultline._client import Client
from faultline._files import write_text
from faultline._stack import Stack, open_stack
from faultline_core.errors import InvalidRequest

# One without a planted bug: the accuracy that it loses is lost to generator and editing, not to the change.
CLASSIFIERS = ("unbiased-resnet", "leaning-resnet", "leaning-vit", "leaning-convnext")
DATASET, CLASSES, PER_CLASS, OTHERS = "demo-findings", ("bus", "plate", "sled"), 24, 4
"""Each of the three classes hides a planted bug. The screen takes 8 of its images and 16 are kept: a change
that flips every answer is proven by 7 of them, 0.5^7 < 0.05 / 6. With 4 images of every other class, all
screened, some 40 images rule out a loss above 10 points where nothing is wrong."""

EDITS_PER_IMAGE = 5
SEED = 0
REPORT, SUMMARY = "report.html", "summary.json"


class Method(StrEnum):
    """What the demo shows."""

    STRESS_TEST = "stress-test"
    DATASET_INTERFACE = "dataset-interface"


Shown = Annotated[
    Method,
    typer.Argument(
        metavar="METHOD",
        help="stress-test: edits to images; dataset-interface: learned classes under shifts.",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the report and its figures.")
]


def demo(
    method: Shown = Method.STRESS_TEST,
    out: Out = Path("faultline-demo"),
    state: State = None,
    port: Port = None,
    services_port: ServicesPort = None,
) -> None:
    """Test classifiers on rendered images and write the report.

    Uses the Faultline that runs here; without one it starts its own and stops it at the end.
    """
    began = time.monotonic()
    shown = DEMOS[method]
    with exit_on_error(), Steps() as steps:
        _make_folder(out)
        # A demo need not fail because another program listens on a default port.
        stack = open_stack(state, port=port, services_port=services_port, any_port=True, tell=steps.tell)
        with stack.temporarily():
            shown.prepare(stack)
            steps.end()
            outcome = shown.show(stack.url, out)
    print_result(f"report:  {(out / shown.report).absolute().as_uri()}\nfigures: {out / shown.figures}")
    print_note(f"the demo took {span(time.monotonic() - began)}")
    raise typer.Exit(outcome)


def prepare(stack: Stack) -> None:
    """Render and register the images to test on, unless an earlier demo did."""
    stack.tell("preparing the demo's images")
    stack.datasets().register_demo(DATASET, PER_CLASS, CLASSES, OTHERS)


def stress_test(url: str, out: Path) -> ExitCode:
    """Run the demo's stress test, write what it found, and return its exit code."""
    with Client(url) as client:
        run = client.stress_tests.create(
            dataset=DATASET, classifiers=CLASSIFIERS, max_edits_per_image=EDITS_PER_IMAGE, seed=SEED
        )
        follow_progress(run, quiet=False)
        summary = run.summary()
        write_text(out / SUMMARY, summary.model_dump_json(indent=2, by_alias=True) + "\n")
        write_text(out / REPORT, run.report())
        print_result(str(summary))
        # Written first: what an incomplete run did find is worth reading.
        if run.run.state != "completed":
            print_note(f"the run ended {run.run.state}: {summary.failed_codes}")
        return exit_for_state(run.run.state)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(f"the folder {str(out)!r} cannot be made: {error.strerror}") from error


@dataclass(frozen=True)
class _Demo:
    prepare: Callable[[Stack], None]
    show: Callable[[str, Path], ExitCode]
    report: str
    figures: str


DEMOS = {
    Method.STRESS_TEST: _Demo(prepare, stress_test, REPORT, SUMMARY),
    Method.DATASET_INTERFACE: _Demo(
        interface_demo.prepare, interface_demo.show, interface_demo.REPORT, interface_demo.FIGURES
    ),
}
