"""The page about each engine's rate by the size of its calls: results/capacity.json."""

from __future__ import annotations

from pathlib import Path

from evaluation.capacity.report import CAPACITY, CapacityReport, Engine
from evaluation.evidence.markdown import page, table

HEADER = ("items a call", "units a second", "range", "share of the best", "n")


def capacity_page(file: Path = CAPACITY) -> str:
    """Write the page."""
    report = CapacityReport.model_validate_json(file.read_bytes())
    body = [line for engine in report.engines for line in _section(engine)]
    machine = report.machine
    how = [
        "- `make capacity` (`SUITE=`, `DEVICE=cuda`, `ONLY=editor`)",
        "",
        "The same number of new images goes through an engine in calls of 1, 2, 4 and more items, in turn,",
        "after a round that warms it up. n is the number of rounds. Rates depend on the machine and on what",
        "else it does; their ratios less so. The unit is an item, for the editor a network evaluation as",
        "[autoscaling](../design/autoscaling.md) counts it.",
        "",
        f"- Suite: {report.suite}",
        f"- Machine: {machine.processor}, {machine.cores} cores, {machine.threads} thread(s)"
        f"{'' if machine.device is None else f', {machine.device}'}; torch {machine.torch}",
    ]
    return page("Capacity of the services", finding(report), body, how)


def finding(report: CapacityReport) -> str:
    """Say what full calls gain over single items: the least and the most of all engines."""
    least, *_, most = sorted(report.engines, key=lambda engine: engine.gain)
    larger = [engine.service for engine in report.engines if engine.batch < engine.enough]
    short = f"; the suite's batch is smaller for {', '.join(larger)}" if larger else ""
    return (
        f"In full calls, the engines of suite `{report.suite}` do {least.gain:.1f} ({least.service}) to "
        f"{most.gain:.1f} times ({most.service}) as much a second as with single items{short}."
    )


def _section(engine: Engine) -> list[str]:
    best = max(rate.middle for rate in engine.rates)
    rows = [
        (
            str(rate.items),
            f"{rate.middle:.1f}",
            f"{min(rate.rates):.1f} to {max(rate.rates):.1f}",
            f"{rate.middle / best:.2f}",
            str(len(rate.seconds)),
        )
        for rate in engine.rates
    ]
    told = (
        f"A call is full with {engine.enough} items: within a tenth of the best rate. The suite's batch is "
        f"{engine.batch}. The engine loads in {engine.load_seconds:.1f} s; the unit is the {engine.unit}."
    )
    return [f"## {engine.service.capitalize()}", "", told, "", *table(HEADER, rows), ""]
