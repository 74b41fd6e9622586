"""The outcomes of a run's items and the run's duration, as every summary reports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from counterpose_core.contract.runs import Run


def ends_of(states: Mapping[str, int]) -> dict[str, int]:
    """Return the planned items and how they ended, from the number of items in each state.

    ``pending`` includes those that are leased.
    """
    counts = Counter(states)
    ends = {name: counts[name] for name in ("done", "filtered", "failed", "cancelled")}
    return {"planned": counts.total(), **ends, "pending": counts["pending"] + counts["leased"]}


def count_reasons(names: Iterable[str | None]) -> dict[str, int]:
    """Count reasons or codes in the order they occur; a missing one is ``unknown``."""
    return dict(Counter(name or "unknown" for name in names))


def total_seconds(recorded: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add up the seconds of each service, by its name in alphabetical order."""
    totals: dict[str, float] = {}
    for seconds in recorded:
        for service, taken in seconds.items():
            totals[service] = totals.get(service, 0) + taken
    return dict(sorted(totals.items()))


def wall_seconds(run: Run) -> float:
    """Return the duration of the run from its first lease to its end; 0 if it has not ended."""
    if run.started_at is None or run.ended_at is None:
        return 0.0
    return max(0.0, (run.ended_at - run.started_at).total_seconds())
