"""Puts the gate on trial, simulated and on the miniature suite, and writes the result file.

    python -m evaluation.gate --out evaluation/results/gate.json

Takes some minutes of one core. Ends with 1 if, on the number of source images that the documentation asks
for, an equal candidate passes in fewer than 95 of 100 trials or a planted bug fails in fewer than 90.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from counterpose_core.contract.gates import TOLERANCE
from evaluation.gate.miniature import LEANING, MiniatureTrials, miniature
from evaluation.gate.simulation import CHANGES, CLASSES, YIELD, Candidate, Trials, trials

SOURCES = (100, 300, 500)
ASKED_FOR = 500
"""Source images that the documentation asks for."""

RETRAINED = 0.3
"""The share of images that another training answers anew: it disagrees on one image in twenty."""

CANDIDATES = {
    "the same answers": Candidate(),
    "an equal model that hardly differs": Candidate(redrawn=0.1),
    "an equal model, trained again": Candidate(redrawn=RETRAINED),
    "an equal model that differs much": Candidate(redrawn=1.0),
    "a bug of 25 points": Candidate(redrawn=RETRAINED, bug=0.25),
    "a bug of 25 points that differs much": Candidate(redrawn=1.0, bug=0.25),
    "a bug of 75 points in one class of eight": Candidate(redrawn=RETRAINED, bug=0.75, one_class=True),
    "a regression of the tolerance": Candidate(redrawn=RETRAINED, bug=TOLERANCE),
    "wrong on a quarter of all images": Candidate(redrawn=RETRAINED, worse=0.25),
}
GREEN = "an equal model, trained again"
RED = ["a bug of 25 points", "a bug of 75 points in one class of eight"]
LEAST_GREEN, LEAST_RED = 0.95, 0.90

_POOL = 250
"""Rendered source images of each class from which the trials of the miniature draw."""


def simulate(replicates: int, seed: int) -> list[tuple[str, Trials]]:
    """Return the outcomes of every candidate at every size."""
    places = [(name, sources) for name in CANDIDATES for sources in SOURCES]
    return [
        (name, trials(CANDIDATES[name], sources, replicates, np.random.default_rng([seed, index])))
        for index, (name, sources) in enumerate(tqdm(places, desc="candidates"))
    ]


def holds(simulated: list[tuple[str, Trials]], rendered: list[MiniatureTrials]) -> bool:
    """Whether the gate is green on equal models and red on planted bugs as often as it must be."""
    at_size = {name: found.outcomes for name, found in simulated if found.sources == ASKED_FOR}
    green = [at_size[GREEN]["passed"]]
    red = [at_size[name]["failed"] for name in RED]
    for each in rendered:
        (red if each.candidate in LEANING else green).append(
            each.outcomes["failed" if each.candidate in LEANING else "passed"]
        )
    return all((each.estimate or 0.0) >= LEAST_GREEN for each in green) and all(
        (each.estimate or 0.0) >= LEAST_RED for each in red
    )


def figures(replicates: int, seed: int) -> dict[str, Any]:
    """Measure everything."""
    rendered = miniature(_POOL, ASKED_FOR, replicates, seed)
    simulated = simulate(replicates, seed)
    return {
        "replicates": replicates, "seed": seed, "tolerance": TOLERANCE, "changes": CHANGES,
        "classes": CLASSES, "kept": YIELD, "asked_for": ASKED_FOR, "green": GREEN, "red": RED,
        "rows": [_row(found) | {"candidate": name} for name, found in simulated],
        "miniature": [asdict(each) | {"outcomes": _outcomes(each)} for each in rendered],
        "holds": holds(simulated, rendered),
    }  # fmt: skip


def _row(found: Trials) -> dict[str, Any]:
    return {
        "sources": found.sources,
        "disagreement": found.disagreement,
        "outcomes": _outcomes(found),
    }


def _outcomes(found: Trials | MiniatureTrials) -> dict[str, Any]:
    return {outcome: rate.model_dump() for outcome, rate in found.outcomes.items()}


def main() -> int:
    """Measure, write the result file, and return whether a rate falls short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicates", type=int, default=100, help="gates per candidate and size")
    parser.add_argument("--seed", type=int, default=0, help="seed of every draw")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    given = parser.parse_args()
    found = figures(given.replicates, given.seed)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return int(not found["holds"])


if __name__ == "__main__":
    sys.exit(main())
