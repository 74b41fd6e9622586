"""Simulates every rate with its limit and writes the result file.

    python -m evaluation.error_rates --replicates 1000 --out evaluation/results/error-rates.json
    python -m evaluation.error_rates --new --out evaluation/results/error-rates.json

With ``--new`` only the rates that the file lacks are simulated, as the whole command would do it. Ends
with 1 if a rate is beyond its limit by more than chance allows, after Bonferroni's correction over all.
Takes about half an hour of one core; the unit tests run a few replicates of each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from .cells import CELLS, Cell


def simulate(
    replicates: int, seed: int, cells: Mapping[str, Cell] = CELLS, known: Collection[str] = ()
) -> dict[str, Any]:
    """Return every rate that is not ``known`` with its interval, its limit and whether it holds."""
    figures = {}
    for index, (name, cell) in enumerate(tqdm(cells.items(), desc="rates")):
        if name in known:
            continue
        # By the place among all cells: a rate that is simulated alone is the same.
        rate, width = cell.simulate(replicates, np.random.default_rng([seed, index]))
        figures[name] = {
            "defect": cell.defect,
            "rate": rate.model_dump(),
            "mean_width": width,
            "limit": cell.limit,
            "side": "at most" if cell.most else "at least",
            "holds": cell.holds(rate, len(cells)),
        }
    return {"replicates": replicates, "seed": seed, "rates": figures}


def _known(file: Path, replicates: int, seed: int) -> dict[str, Any]:
    """Return the rates that a result file has, of the same seed and number of replicates."""
    found = json.loads(file.read_text(encoding="utf-8"))
    if (found["replicates"], found["seed"]) != (replicates, seed):
        raise SystemExit("the result file has other replicates or another seed; simulate all its rates again")
    return dict(found["rates"])


def main() -> int:
    """Simulate, write the result file, and return whether any rate is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1000, help="simulated experiments per rate")
    parser.add_argument("--seed", type=int, default=0, help="seed of every draw")
    parser.add_argument("--new", action="store_true", help="only the rates that the result file lacks")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    arguments = parser.parse_args()
    known = _known(arguments.out, arguments.replicates, arguments.seed) if arguments.new else {}
    figures = simulate(arguments.replicates, arguments.seed, known=known.keys())
    rates = known | figures["rates"]
    figures["rates"] = {name: rates[name] for name in CELLS if name in rates} if known else rates
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return int(not all(one["holds"] for one in figures["rates"].values()))


if __name__ == "__main__":
    sys.exit(main())
