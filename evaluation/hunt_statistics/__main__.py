"""Simulates the statistics of bug hunts and writes the result file.

    python -m evaluation.hunt_statistics --replicates 1000 --out evaluation/results/hunt-statistics.json

Ends with 1 if a figure is beyond its limit by more than chance allows, after Bonferroni's correction over
all. Takes some minutes of one core; the unit tests run a few replicates of each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from evaluation.error_rates.cells import Cell

from .cells import GAINS, MEANS, SHARES, Gain, Mean


def simulate(
    replicates: int,
    seed: int,
    shares: Mapping[str, Cell] = SHARES,
    means: Mapping[str, Mean] = MEANS,
    gains: Mapping[str, Gain] = GAINS,
) -> dict[str, Any]:
    """Return every figure with its interval, its limit and whether it holds."""
    figures: dict[str, Any] = {
        "replicates": replicates, "seed": seed, "shares": {}, "means": {}, "gains": {}
    }  # fmt: skip
    for index, (name, cell) in enumerate(tqdm(shares.items(), desc="shares")):
        rate, _ = cell.simulate(replicates, np.random.default_rng([seed, index]), full=True)
        figures["shares"][name] = {
            "subject": cell.defect,
            "rate": rate.model_dump(),
            "limit": cell.limit,
            "side": "at most" if cell.most else "at least",
            "holds": cell.holds(rate, len(shares)),
        }
    for index, (name, mean) in enumerate(tqdm(means.items(), desc="means"), start=len(shares)):
        error, holds = mean.simulate(replicates, np.random.default_rng([seed, index]))
        figures["means"][name] = {"relative_error": error.model_dump(), "holds": holds}
    for index, (name, gain) in enumerate(gains.items(), start=len(shares) + len(means)):
        times, holds = gain.simulate(replicates, np.random.default_rng([seed, index]))
        figures["gains"][name] = {"times": times, "least": gain.least, "holds": holds}
    return figures


def holds(figures: Mapping[str, Any]) -> bool:
    """Whether every figure with a limit is within it."""
    rows = [row for part in ("shares", "means", "gains") for row in figures[part].values()]
    return all(row["holds"] is not False for row in rows)


def main() -> int:
    """Simulate, write the result file, and return whether any figure is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1000, help="simulated experiments per figure")
    parser.add_argument("--seed", type=int, default=0, help="seed of every draw")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    given = parser.parse_args()
    figures = simulate(given.replicates, given.seed)
    given.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return int(not holds(figures))


if __name__ == "__main__":
    sys.exit(main())
