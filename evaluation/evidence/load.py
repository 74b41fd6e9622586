"""The page about ledger and gateway under load: every row of results/load.json, and growth as drawings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from evaluation.evidence.growth import drawing
from evaluation.evidence.markdown import NONE, page, table
from evaluation.load.report import Growth, LoadReport, LoadRow
from evaluation.paths import RESULTS

LOAD = RESULTS / "load.json"
HEADER = ("measure", "answers", "target", "value", "range", "n", "met")
SIDES = {"at most": "≤", "at least": "≥"}


def read_load(file: Path = LOAD) -> LoadReport:
    """Read the measurements.

    Raises:
        OSError: there is no such file.
        pydantic.ValidationError: it is no load report.
    """
    return LoadReport.model_validate_json(file.read_bytes())


def load_page(report: LoadReport) -> str:
    """Write the page."""
    machine = report.machine
    drawings = charts(report)
    body: list[str] = []
    for group in dict.fromkeys(each.group for each in report.rows):
        rows = [each for each in report.rows if each.group == group]
        body += [f"## {group.capitalize()}", "", *table(HEADER, map(_line, rows)), ""]
        for name, lines in drawings.items():
            if lines[0].group == group:
                body += [f"![{lines[0].unit} by {lines[0].size}]({name})", ""]
    how = [
        "- `make load` (`QUICK=1` for small sizes, `ONLY=leases,listeners` for some groups)",
        f"- Machine: {machine.processor}, {machine.cores} cores, load average {machine.load:g} at the start",
        "",
        "Values are medians with their range over n repetitions; of a ratio or a quantile, n counts calls.",
        "Callers and gateway share the cores: other machines give other rates; ratios hold better.",
        *_not_drawn(report),
    ]
    return page("Ledger and gateway under load", finding(report), body, how)


def finding(report: LoadReport) -> str:
    """Say how many targets are met, and name those that are not."""
    judged = [row for row in report.rows if row.met is not None]
    missed = [row for row in judged if not row.met]
    named = "; ".join(f"{row.name} ({_number(row.value)} {row.unit})" for row in missed)
    return f"{len(judged) - len(missed)} of {len(judged)} targets are met" + (
        f". Missed: {named}." if missed else "."
    )


def charts(report: LoadReport) -> Mapping[str, list[Growth]]:
    """Return the lines of each drawing by its file's name: a group's figures of one unit by one size."""
    known = [line for line in map(_positive, report.growth) if line.points]
    known.sort(key=_axes)
    found: dict[str, list[Growth]] = {}
    for (group, _, _), lines in groupby(known, key=_axes):
        number = sum(name.startswith(f"load-{group}-") for name in found) + 1
        found[f"load-{group}-{number}.svg"] = list(lines)
    return found


def load_drawings(report: LoadReport) -> Mapping[str, str]:
    """Return the SVG of each drawing by its file's name."""
    return {name: drawing(lines) for name, lines in charts(report).items()}


def _positive(growth: Growth) -> Growth:
    points = tuple(point for point in growth.points if min(point) > 0)
    return growth.model_copy(update={"points": points})


def _not_drawn(report: LoadReport) -> list[str]:
    """Name the lines with points at 0, which a quick run's memory has and a logarithmic axis has not."""
    partial = [line.name for line in report.growth if _positive(line) != line]
    return ["", f"Points at 0 are not drawn: {', '.join(dict.fromkeys(partial))}."] if partial else []


def _axes(growth: Growth) -> tuple[str, str, str]:
    return growth.group, growth.size, growth.unit


def _line(row: LoadRow) -> tuple[str, ...]:
    met = {None: NONE, True: "yes", False: "**no**"}[row.met]
    target = NONE if row.target is None else f"{SIDES[row.side]} {_number(row.target)}"
    spread = NONE if row.low == row.high else f"{_number(row.low)} to {_number(row.high)}"
    value = f"{_number(row.value)} {row.unit}"
    return row.name, ", ".join(row.meets) or NONE, target, value, spread, f"{row.n:,}", met


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
