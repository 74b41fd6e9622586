"""How long a run would take, at the rates of this gateway's earlier runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from counterpose_core.contract.runs import Run

EARLIER_RUNS = 50
LEAST_ITEMS = 20
"""A run of fewer items tells more of the start of the services than of their rate."""


def seconds_per_item(runs: Iterable[Run], is_alike: Callable[[Run], bool] = lambda run: True) -> list[float]:
    """Return the seconds by the clock that each completed run took for an item, the fastest first."""
    return sorted(
        (run.ended_at - run.started_at).total_seconds() / run.request_counts.total
        for run in runs
        if run.state == "completed"
        and run.ended_at is not None
        and run.started_at is not None
        and run.request_counts.total >= LEAST_ITEMS
        and is_alike(run)
    )


def minutes_of(items: int, seconds: list[float]) -> dict[str, float | int | None]:
    """Return the minutes at the median, the fastest and the slowest rate; None without any."""
    if not seconds:
        return {"minutes": None, "fastest": None, "slowest": None, "runs": 0}
    return {
        "minutes": items * statistics.median(seconds) / 60,
        "fastest": items * seconds[0] / 60,
        "slowest": items * seconds[-1] / 60,
        "runs": len(seconds),
    }
