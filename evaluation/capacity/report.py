"""`results/capacity.json`: each engine's rate by the number of items in a call."""

from __future__ import annotations

from statistics import median

from pydantic import Field

from counterpose_core.types import ServiceName
from evaluation.benchmarks.report import Machine, Part
from evaluation.paths import RESULTS

CAPACITY = RESULTS / "capacity.json"
ENOUGH = 0.9
"""Calls are large enough when their rate is this share of the best."""


class Rate(Part):
    """The rate at one size of calls: ``seconds`` of each repetition for ``work`` units of work."""

    items: int = Field(ge=1)
    work: float = Field(gt=0)
    seconds: tuple[float, ...]

    @property
    def rates(self) -> list[float]:
        """Units of work a second, by repetition."""
        return [self.work / each for each in self.seconds]

    @property
    def middle(self) -> float:
        """The median rate."""
        return median(self.rates)


class Engine(Part):
    """One service's engine; ``unit`` is what its work is counted in, ``batch`` is the suite's."""

    service: ServiceName
    unit: str
    batch: int
    load_seconds: float
    rates: tuple[Rate, ...]

    @property
    def enough(self) -> int:
        """The smallest number of items in a call whose rate is within a tenth of the best."""
        best = max(rate.middle for rate in self.rates)
        return next(rate.items for rate in self.rates if rate.middle >= ENOUGH * best)

    @property
    def gain(self) -> float:
        """How many times the rate of single items that is."""
        by_items = {rate.items: rate.middle for rate in self.rates}
        return by_items[self.enough] / by_items[1]


class CapacityReport(Part):
    """The whole report."""

    machine: Machine
    suite: str
    engines: tuple[Engine, ...]
