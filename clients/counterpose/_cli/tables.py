"""Results as text: aligned tables on a terminal, tab-separated lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ThresholdInForce,
)
from counterpose_core.types import Estimate

MISSING = "-"

# A name may hold what would break a tab-separated line.
_BREAKS = str.maketrans("\t\r\n", "   ")

Cell = str | Estimate | None


@dataclass(frozen=True)
class Table:
    """Rows under a header; an estimate carries its interval and n, None is a missing figure.

    The columns of ``whole`` never wrap on a terminal, so that ids can be copied.
    """

    header: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    whole: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.aligned() if sys.stdout.isatty() else self.tab_separated()

    def tab_separated(self) -> str:
        """One line per row, cells separated by tabs, however wide they are."""
        lines = [self.header, *(tuple(map(_one_line, row)) for row in self.rows)]
        return "\n".join("\t".join(line) for line in lines)

    def aligned(self, width: int | None = None) -> str:
        """Columns that fit the terminal, or ``width`` characters: long cells wrap, nothing is cut."""
        table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in self.header:
            table.add_column(name, overflow="fold", no_wrap=name in self.whole)
        for row in self.rows:
            table.add_row(*map(_wrapped, row))
        console = Console(file=sys.stdout, width=width)
        with console.capture() as captured:
            console.print(table)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


def runs_text(runs: Iterable[Run]) -> str:
    """One run per row: id, kind, state, ended items of all, start (UTC), dataset and name, if any has one."""
    listed = list(runs)
    is_named = any(run.name for run in listed)
    rows = [
        (
            *(run.id, run.kind, run.state, _progress(run), f"{run.created_at:%Y-%m-%d %H:%M}", run.dataset),
            *([run.name or ""] if is_named else []),
        )
        for run in listed
    ]
    header = ("run", "kind", "state", "items", "created (UTC)", "dataset", *(["name"] if is_named else []))
    return str(Table(header, rows, whole=frozenset({"run"})))


def run_text(run: Run) -> str:
    """A run's id, kind, state and dataset, then its times and why it failed."""
    about = f" of {run.dataset}" if run.dataset else ""
    lines = [
        *([] if run.name is None else [run.name]),
        f"run {run.id}: {run.kind}{about}, {run.state}, {_progress(run)} items",
        f"created {run.created_at:%Y-%m-%d %H:%M} UTC"
        + ("" if run.ended_at is None else f", ended {run.ended_at:%Y-%m-%d %H:%M} UTC"),
    ]
    if run.parent is not None:
        lines.append(f"continues run {run.parent}")
    if run.problem is not None:
        lines.append(f"{run.problem.code}: {run.problem.detail}")
    return "\n".join(lines)


def inspections_text(inspections: Inspections, paths: Mapping[tuple[float, str], Path]) -> str:
    """One inspected image per row, with its file in ``paths`` (by percentile and item) or its reference.

    Similarities are CLIP's cosines, from -1 to 1. "threshold" is the similarity at the percentile, which
    becomes the threshold if this percentile is the lowest whose images all show the shift.
    """
    header = ("percentile", "threshold", "similarity", "item", "class", "image")
    rows = [
        (
            f"{row.percentile:g}",
            f"{row.similarity:.3f}",
            f"{inspected.similarity:.3f}",
            inspected.item,
            inspected.class_name,
            str(paths.get((row.percentile, inspected.item), inspected.image)),
        )
        for row in inspections.inspections
        for inspected in row.images
    ]
    return str(Table(header, rows, whole=frozenset({"item"})))


def thresholds_text(thresholds: ShiftThresholds) -> str:
    """The threshold in force per shift, then every decision, oldest first."""
    rows = [
        (name, _threshold(applied), applied.author or applied.set_by or MISSING)
        for name, applied in thresholds.in_force.items()
    ]
    decisions = [f"decision {decision.id}: {decision_text(decision)}" for decision in thresholds.decisions]
    table = str(Table(("shift", "threshold", "set by"), rows))
    return "\n".join([table, *([""] if decisions else []), *decisions])


def decision_text(decision: ShiftThresholdDecision) -> str:
    """One decision on a threshold, in one line."""
    threshold = decision.threshold
    passes = "no image passes" if threshold is None else f"images pass from {threshold:.3f} up"
    percentile = "" if decision.percentile is None else f", percentile {decision.percentile:g}"
    failing = ", ".join(f"{percentile:g}" for percentile in decision.failing_above)
    lacking = f"; at least one image lacks it at {failing}" if failing else ""
    signed = f"({decision.author}, {decision.decided_at:%Y-%m-%d %H:%M} UTC)"
    return f"{decision.shift}: {passes}{percentile}{lacking} {signed}"


def _threshold(applied: ThresholdInForce) -> str:
    if applied.nothing_passes:
        return "no image passes"
    return "not applied" if applied.threshold is None else f"{applied.threshold:.3f}"


def _progress(run: Run) -> str:
    counts = run.request_counts
    return f"{counts.total - counts.pending}/{counts.total}"


def counts_text(counts: Mapping[str, int]) -> str:
    """How many items are in each state."""
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def unless_empty(header: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> list[str]:
    """Return a table, or nothing where it has no rows."""
    return [str(Table(header, rows))] if rows else []


def _one_line(cell: Cell) -> str:
    return MISSING if cell is None else str(cell).translate(_BREAKS)


def _wrapped(cell: Cell) -> Text:
    if isinstance(cell, Estimate) and cell.estimate is not None:
        # The interval under its estimate: three of them side by side fit 80 columns.
        return Text(f"{cell.estimate:.3f} (n={cell.n})\n[{cell.low:.3f}, {cell.high:.3f}]")
    return Text(_one_line(cell))
