"""`results/load.json`: every row of the load measurements with its limit, and growth with size."""

from __future__ import annotations

from typing import Literal

from evaluation.validity.report import Part

Side = Literal["at most", "at least"]


class LoadRow(Part):
    """One measured figure.

    ``group``: the group of measurements that made it. ``meets``: the requirements that it answers, such as L1
    or H2. ``value`` is the median of ``n`` measurements, ``low`` and ``high`` the least and the greatest; a
    ratio or a quantile of many calls has ``n`` calls. ``target`` is None where a row only gives context.
    """

    group: str
    name: str
    meets: tuple[str, ...]
    unit: str
    value: float
    low: float
    high: float
    n: int
    target: float | None = None
    side: Side = "at most"

    @property
    def met(self) -> bool | None:
        """Whether the value keeps its target, or None without one."""
        if self.target is None:
            return None
        return self.value <= self.target if self.side == "at most" else self.value >= self.target


class Growth(Part):
    """A figure at growing sizes, for a drawing."""

    group: str
    name: str
    size: str
    unit: str
    points: tuple[tuple[float, float], ...]


class LoadMachine(Part):
    """What the figures were measured on; ``load`` is the load average at the start."""

    processor: str
    cores: int
    load: float


class LoadReport(Part):
    """`results/load.json`."""

    machine: LoadMachine
    rows: tuple[LoadRow, ...]
    growth: tuple[Growth, ...] = ()
