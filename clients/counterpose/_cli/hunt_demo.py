"""``counterpose demo bug-hunt``: find a planted bug from a classifier and a label alone, beside a control."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from counterpose._cli.exit_code import ExitCode, exit_for_state
from counterpose._cli.progress import follow_progress
from counterpose._cli.tables import bug_hunt_text
from counterpose._cli.terminal import print_note, print_result
from counterpose._files import write_text
from counterpose._stack import DemoDatasets
from counterpose._sync.client import Client
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary

CLASSIFIERS = ("leaning-vit", "unbiased-resnet")
"""One that was taught a wrong answer, and a control that sees the same images."""
LABEL = "fly"
IMAGES, HELD_OUT, WINNERS = 600, 64, 2
"""Two hundred images of the label alone, of which about one in fifty shows the planted circumstance;
tests/unit/demo/test_demo_sizes.py shows the calculation."""

SETTINGS: dict[str, Any] = {
    "classifiers": CLASSIFIERS,
    "labels": [LABEL],
    "budget": {"images": IMAGES},
    "held_out": HELD_OUT,
    "winners": WINNERS,
    "vary": 0.0,
    "seed": 0,
}
REPORT, FIGURES = "hunt.html", "hunt.json"


class HuntDemo(BaseModel):
    """``demo/hunt.json``: what the hunt found, and its seconds."""

    model_config = ConfigDict(frozen=True)

    hunt: BugHuntSummary
    seconds: float


def images(datasets: DemoDatasets) -> None:
    """Register nothing: a hunt tests on no image of the user's."""


def show(url: str, out: Path) -> ExitCode:
    """Hunt, write what came of it, and return the exit code."""
    with Client(url) as client:
        began = time.monotonic()
        run = client.bug_hunts.create(**SETTINGS)
        follow_progress(run, quiet=False)
        seconds = time.monotonic() - began
        summary = run.summary()
        demo = HuntDemo(hunt=summary, seconds=seconds)
        write_text(out / FIGURES, demo.model_dump_json(indent=2) + "\n")
        write_text(out / REPORT, run.report())
        print_result(bug_hunt_text(summary))
        # Written first: what an incomplete run did find is worth reading.
        if run.run.state != "completed":
            print_note(f"the run ended {run.run.state}")
        return exit_for_state(run.run.state)
