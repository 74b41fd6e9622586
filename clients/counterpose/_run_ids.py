"""How a run is named: by its id, by the beginning of it, or as the last one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.types import RunKind

LAST = "@last"
"""Stands for the id of the run that was created last."""

# An id has 32 digits.
_BEGINNING = re.compile(r"[0-9a-f]{1,31}")


def is_beginning(run: str) -> bool:
    """Whether this may be the beginning of an id, and is not a whole one."""
    return _BEGINNING.fullmatch(run) is not None


def last_run(runs: Sequence[Run], kind: RunKind | None) -> Run:
    """Return the newest run; raises `NotFound` where there is none of the kind."""
    if not runs:
        raise NotFound(f"{LAST!r} names no run: there is no {kind or 'run'} yet")
    return max(runs, key=lambda run: run.created_at)


def only_run(beginning: str, runs: Iterable[Run]) -> Run:
    """Return the run whose id begins so; raises `NotFound` or, if there are several, `InvalidRequest`."""
    found = [run for run in runs if run.id.startswith(beginning)]
    if not found:
        raise absent_run(beginning)
    if len(found) > 1:
        ids = ", ".join(run.id for run in found[:5])
        raise InvalidRequest(f"{beginning!r} begins the ids of {len(found)} runs: {ids}; give more digits")
    return found[0]


def absent_run(run: str) -> NotFound:
    """Return the error that there is no such run."""
    return NotFound(f"no run {run!r}: `counterpose runs list` lists the runs")
