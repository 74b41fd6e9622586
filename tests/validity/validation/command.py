"""The command line of a validation, and the file it writes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from . import aims
from .order import Order
from .report import PresetReport, Simulation, Validity
from .serving import PORT
from .sources import Habits
from .truth import LEAST_SOURCES

ROOT = Path(__file__).resolve().parents[3]
STATE = ROOT / ".faultline/validity"
OUT = ROOT / "demo/validity.json"
SIMULATION = ROOT / "demo/simulation.json"


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make validate", description=__doc__)
    parser.add_argument("--seeds", default="0", help="numbers of stretches of validation seeds: 0,1")
    parser.add_argument("--sources", type=int, default=400, help="of each seed, as many of every class")
    parser.add_argument("--preset", default="quick", help="preset of the suite's editor")
    parser.add_argument("--edits", type=int, default=10, help="edits of each source")
    parser.add_argument("--habits", choices=get_args(Habits), default="as-trained")
    parser.add_argument("--classifiers", type=Path, help="folder of classifiers; without it they are trained")
    parser.add_argument("--bugs", type=Path, help="what those were taught, or what to teach")
    parser.add_argument("--state", type=Path, default=STATE, help="where finished pieces are kept")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--url", help="a gateway that runs already, instead of starting one")
    parser.add_argument("--port", type=int, default=PORT, help="of the gateway; the services take the next")
    parser.add_argument("--least", type=int, default=LEAST_SOURCES, help="sources that a cell needs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="train missing classifiers for a few steps only")
    parser.add_argument(
        "--again",
        action="store_true",
        help="report on the newest finished run, though the suite changed since",
    )
    return parser.parse_args(arguments)


def order_of(given: argparse.Namespace) -> Order:
    """The order that a command line gives."""
    return Order(
        state=given.state.absolute(),
        seeds=tuple(int(seed) for seed in given.seeds.split(",")),
        sources=given.sources,
        preset=given.preset,
        edits=given.edits,
        habits=given.habits,
        classifiers=given.classifiers,
        bugs=given.bugs,
        smoke=given.smoke,
        least=given.least,
        again=given.again,
    )


def merged(out: Path, preset: str, made: PresetReport, simulated: Path = SIMULATION) -> Validity:
    """The report with one preset's part made anew and the others as they were, beside the simulation."""
    known = Validity.model_validate_json(out.read_bytes()).presets if out.exists() else {}
    simulation = Simulation.model_validate_json(simulated.read_bytes()) if simulated.exists() else None
    return Validity(
        presets=known | {preset: made},
        simulation=simulation,
        simulation_aims=[] if simulation is None else aims.of_simulation(simulation),
    )
