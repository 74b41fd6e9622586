"""What the groups of load measurements share: sizes, and rows from repeated timings."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.load.report import LoadRow

SOAK_SECONDS = 600.0
"""The soak among the other measurements; `make soak` takes two hours."""


@dataclass(frozen=True)
class Load:
    """One measurement's surroundings: an empty scratch folder, and whether seconds must do."""

    folder: Path
    quick: bool = False
    soak_seconds: float = SOAK_SECONDS

    def sizes(self, *full: int) -> tuple[int, ...]:
        """Return the sizes to measure; a quick measurement takes the smaller half."""
        return full[: max(1, len(full) // 2)] if self.quick else full


def seconds(call: Callable[[], object], repeats: int) -> list[float]:
    """Return the seconds that each of ``repeats`` calls took."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that a ``share`` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def row(group: str, name: str, unit: str, values: Sequence[float], **given: Any) -> LoadRow:
    """Return the row of repeated measurements: their median, least and greatest."""
    figures = {"value": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}
    return LoadRow(group=group, name=name, unit=unit, **{**figures, **given})
