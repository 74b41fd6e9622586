"""Quality figures of trained models: an estimate, its 95 % interval and its n."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate

# Two-sided 95 % point of the normal distribution.
_Z = 1.959964


def share(hits: int, n: int) -> Estimate:
    """Return a proportion with its interval; without trials, all its values are None."""
    return proportion(hits, n)


def mean(values: Sequence[float] | np.ndarray) -> Estimate:
    """Return the mean of independent values with its normal interval; needs two values or more."""
    found = np.asarray(values, dtype=np.float64)
    # One value has no spread, and a made-up interval would look like certainty.
    if len(found) < 2:
        raise ValueError(f"an interval needs at least two values, got {len(found)}")
    centre, error = float(found.mean()), float(found.std(ddof=1)) / math.sqrt(len(found))
    return Estimate(estimate=centre, low=centre - _Z * error, high=centre + _Z * error, n=len(found))


def table(figures: Mapping[str, Estimate], heading: str) -> str:
    """Return figures as a Markdown table."""
    rows = [f"| {heading} | estimate | low | high | n |", "| --- | --- | --- | --- | --- |"]
    for name, figure in figures.items():
        cells = (
            "-" if value is None else f"{value:.3f}" for value in (figure.estimate, figure.low, figure.high)
        )
        rows.append(f"| {name} | {' | '.join(cells)} | {figure.n} |")
    return "\n".join(rows)
