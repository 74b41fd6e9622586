"""What the rows come to: means with intervals over pairs, and differences on the same pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from counterpose_core.statistics.bootstrap import bootstrap_mean, proportion
from counterpose_core.types import Estimate

Row = Mapping[str, Any]

SEED = 0
BOUNDS: Mapping[str, tuple[float, float]] = {
    "structure": (0, 4),
    "psnr": (0, 100),
    "lpips": (0, 10),
    "mse": (0, 1),
    "ssim": (-1, 1),
    "clip": (0, 100),
    "clip_edited": (0, 100),
    "target_psnr": (0, 100),
    "target_ssim": (-1, 1),
    "target_psnr_edited": (0, 100),
    "reconstruction_psnr": (0, 100),
}
"""What each metric lies between."""
SHARES = ("kept", "success", "fidelity", "identical")
COSTS = ("evaluations", "cpu_seconds", "seconds")


class ContestantFigures(BaseModel):
    """One contestant: its metrics over all its edits, kept or not; a metric that no pair has is left out.

    ``shares``: of edits that the gate keeps, that show what was asked (`success`) and nothing else changed
    (`fidelity`) by the oracle, and that equal the source outside the mask (`identical`), and so have no PSNR.
    ``refused``: edits that were not made, by their error's code. ``costs`` are means of an edit.
    """

    pairs: int
    metrics: dict[str, Estimate]
    by_type: dict[str, dict[str, Estimate]]
    shares: dict[str, Estimate]
    gate: dict[str, int]
    refused: dict[str, int]
    resized: int
    costs: dict[str, float]


class EditFigures(BaseModel):
    """results/edits.json: all contestants, and each less the first on the pairs that both have."""

    data: dict[str, Any]
    suite: str
    absent: dict[str, str]
    contestants: dict[str, ContestantFigures]
    reference: str
    differences: dict[str, dict[str, Estimate]]


def figures_of(rows: Sequence[Row]) -> ContestantFigures:
    """Return the figures of a contestant's rows."""
    made = [row for row in rows if "problem" not in row]
    types = sorted({row["type"] for row in made})
    return ContestantFigures(
        pairs=len(rows),
        metrics=_means(made, BOUNDS),
        by_type={
            name: _means(
                [row for row in made if row["type"] == name], ("psnr", "ssim", "clip", "target_psnr")
            )
            for name in types
        },
        shares={name: _share(row.get(name) for row in made) for name in SHARES if _has(made, name)},
        gate=dict(Counter(row["failed"] for row in made if row.get("failed"))),
        refused=dict(Counter(row["problem"] for row in rows if "problem" in row)),
        resized=sum(row.get("resized", False) for row in made),
        costs={name: float(np.mean([row[name] for row in made])) for name in COSTS if _has(made, name)},
    )


def differences(rows: Sequence[Row], reference: Sequence[Row]) -> dict[str, Estimate]:
    """Return the mean difference from the reference on the pairs that both have, by metric."""
    theirs = {row["id"]: row for row in reference}
    both = [(row, theirs[row["id"]]) for row in rows if row["id"] in theirs]
    generator = np.random.default_rng(SEED)
    estimates = {}
    for name, (low, high) in BOUNDS.items():
        values = [
            row[name] - other[name]
            for row, other in both
            if row.get(name) is not None and other.get(name) is not None
        ]
        if values:
            estimates[name] = bootstrap_mean(values, generator, bounds=(low - high, high - low))
    return estimates


def _means(rows: Sequence[Row], names: Iterable[str]) -> dict[str, Estimate]:
    generator = np.random.default_rng(SEED)
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in names}
    return {
        name: bootstrap_mean(found, generator, bounds=BOUNDS[name]) for name, found in values.items() if found
    }


def _share(values: Iterable[bool | None]) -> Estimate:
    known = [bool(value) for value in values if value is not None]
    return proportion(sum(known), len(known))


def _has(rows: Sequence[Row], name: str) -> bool:
    return any(row.get(name) is not None for row in rows)
