"""The command line of `make validate`, and the file that it writes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from evaluation.paths import RESULTS, STATE

from . import aims
from .order import Order
from .report import PresetReport, Simulation, Validity
from .roster import CONTROL_SEEDS
from .serving import PORT
from .sources import Habits
from .truth import LEAST_SOURCES

VALIDITY_STATE = STATE / "validity"
OUT = RESULTS / "validity.json"
SIMULATION = RESULTS / "simulation.json"


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="make validate", description="Compare stress tests of the miniature world with rendered truth."
    )
    parser.add_argument("--seeds", default="0", help="stretches of validation seeds, such as 0,1")
    parser.add_argument(
        "--sources", type=int, default=400, help="images per seed, spread evenly over the classes"
    )
    parser.add_argument("--preset", default="quick", help="preset of the suite's editor")
    parser.add_argument("--edits", type=int, default=10, help="planned edits per image")
    parser.add_argument(
        "--habits", choices=get_args(Habits), default="as-trained", help="scenes that the images show"
    )
    parser.add_argument("--classifiers", type=Path, help="folder of classifiers (default: train them)")
    parser.add_argument(
        "--bugs", type=Path, help="file of the bugs that those classifiers were taught, or are to be taught"
    )
    parser.add_argument(
        "--controls",
        type=int,
        default=CONTROL_SEEDS,
        help="classifiers without bugs that are trained to count false alarms",
    )
    parser.add_argument(
        "--state", type=Path, default=VALIDITY_STATE, help="folder that keeps finished pieces"
    )
    parser.add_argument(
        "--out", type=Path, default=OUT, help="result file; figures of other presets stay in it"
    )
    parser.add_argument("--url", help="address of a running gateway (default: start one)")
    parser.add_argument(
        "--port", type=int, default=PORT, help="port of the gateway; the services take the next one"
    )
    parser.add_argument(
        "--least", type=int, default=LEAST_SOURCES, help="images that a cell needs to be compared"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads that train and render")
    parser.add_argument("--smoke", action="store_true", help="train missing classifiers for only a few steps")
    parser.add_argument(
        "--again",
        action="store_true",
        help="report on the newest finished run even if the suite has changed since",
    )
    return parser.parse_args(arguments)


def order_of(given: argparse.Namespace) -> Order:
    """Return what to validate, from the command line."""
    return Order(
        state=given.state.absolute(),
        seeds=tuple(int(seed) for seed in given.seeds.split(",")),
        sources=given.sources,
        preset=given.preset,
        edits=given.edits,
        habits=given.habits,
        classifiers=given.classifiers,
        bugs=given.bugs,
        controls=given.controls,
        smoke=given.smoke,
        least=given.least,
        again=given.again,
    )


def merged(out: Path, preset: str, made: PresetReport, simulated: Path = SIMULATION) -> Validity:
    """Return the report with one preset's part replaced, the others unchanged, and the simulation."""
    known = Validity.model_validate_json(out.read_bytes()).presets if out.exists() else {}
    simulation = Simulation.model_validate_json(simulated.read_bytes()) if simulated.exists() else None
    return Validity(
        presets=known | {preset: made},
        simulation=simulation,
        simulation_aims=[] if simulation is None else aims.of_simulation(simulation),
    )
