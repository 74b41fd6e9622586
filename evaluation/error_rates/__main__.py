"""Simulates every rate with its limit and writes the result file.

    python -m evaluation.error_rates --replicates 1000 --out evaluation/results/error-rates.json
    python -m evaluation.error_rates --new --out evaluation/results/error-rates.json
    python -m evaluation.error_rates --new --full --out evaluation/results/error-rates.json

A costly rate has fewer replicates, unless ``--full`` asks for all. With ``--new`` only the rates are
simulated that the file lacks, or has of fewer replicates, as the whole command would do it. The file is
written after each rate. Ends with 1 if a rate is beyond its limit by more than chance allows, after
Bonferroni's correction over all. Takes about half an hour of one core, and hours with ``--full``; the
unit tests run a few replicates of each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from .cells import CELLS, Cell


def simulate(
    replicates: int,
    seed: int,
    cells: Mapping[str, Cell] = CELLS,
    known: Collection[str] = (),
    *,
    full: bool = False,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every rate that is not ``known`` with its interval, its limit and whether it holds."""
    for index, (name, cell) in enumerate(tqdm(cells.items(), desc="rates")):
        if name in known:
            continue
        # By the place among all cells: a rate that is simulated alone is the same.
        rate, width = cell.simulate(replicates, np.random.default_rng([seed, index]), full=full)
        yield (
            name,
            {
                "defect": cell.defect,
                "replicates": cell.replicates(replicates, full=full),
                "rate": rate.model_dump(),
                "mean_width": width,
                "limit": cell.limit,
                "side": "at most" if cell.most else "at least",
                "holds": cell.holds(rate, len(cells)),
            },
        )


def _known(file: Path, replicates: int, seed: int, *, full: bool) -> dict[str, Any]:
    """Return the rates that a result file has, of the same seed and of enough replicates."""
    found = json.loads(file.read_text(encoding="utf-8"))
    if (found["replicates"], found["seed"]) != (replicates, seed):
        raise SystemExit("the result file has other replicates or another seed; simulate all its rates again")
    return {
        name: row
        for name, row in found["rates"].items()
        if name not in CELLS or row["replicates"] >= CELLS[name].replicates(replicates, full=full)
    }


def _write(file: Path, replicates: int, seed: int, rates: Mapping[str, Any]) -> None:
    ordered = {name: rates[name] for name in CELLS if name in rates}
    others = {name: row for name, row in rates.items() if name not in CELLS}
    figures = {"replicates": replicates, "seed": seed, "rates": ordered | others}
    file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    """Simulate, write the result file, and return whether any rate is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1000, help="simulated experiments per rate")
    parser.add_argument("--seed", type=int, default=0, help="seed of every draw")
    parser.add_argument("--new", action="store_true", help="only the rates that the result file lacks")
    parser.add_argument("--full", action="store_true", help="all replicates of costly rates, too")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    given = parser.parse_args()
    rates = _known(given.out, given.replicates, given.seed, full=given.full) if given.new else {}
    for name, row in simulate(given.replicates, given.seed, known=tuple(rates), full=given.full):
        rates[name] = row
        _write(given.out, given.replicates, given.seed, rates)
    return int(not all(one["holds"] for one in rates.values()))


if __name__ == "__main__":
    sys.exit(main())
