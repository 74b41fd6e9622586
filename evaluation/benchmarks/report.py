"""`results/editor.json`: one row a measure, with its range and its target."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Bound = Literal["≥", "≤"]


class Part(BaseModel):
    """A frozen part of the report that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Machine(Part):
    """The machine that was measured on, without names of hosts or folders."""

    processor: str
    cores: int = Field(ge=1)
    threads: int = Field(ge=1)
    device: str | None
    python: str
    torch: str
    diffusers: str


class Row(Part):
    """One measure: its middle value and range over ``n`` repetitions or images; null where it is open.

    A bound from below is held against the middle, one from above against the worst: an error that one
    image in eight shows is there. ``met`` is null where there is no target, or no value. ``advisory``:
    wall clock, which depends on what else the machine does; counts are the gate.
    """

    gate: str
    measure: str
    target: str | None
    value: float | None
    low: float | None
    high: float | None
    n: int = Field(ge=0)
    met: bool | None
    advisory: bool = False


class EditorBenchmark(Part):
    """The whole report; ``settings`` are the sizes it ran at."""

    machine: Machine
    settings: dict[str, str | int | float | list[float]]
    rows: list[Row]


class Target(Part):
    """A bound that a measure is compared with."""

    bound: Bound
    value: float

    def __str__(self) -> str:
        return f"{self.bound} {self.value:g}"

    def met_by(self, value: float) -> bool:
        """Say whether a value is within the bound."""
        return value >= self.value if self.bound == "≥" else value <= self.value


def at_least(value: float) -> Target:
    """Bound from below."""
    return Target(bound="≥", value=value)


def at_most(value: float) -> Target:
    """Bound from above."""
    return Target(bound="≤", value=value)


def row(
    gate: str,
    measure: str,
    values: Sequence[float],
    target: Target | None = None,
    *,
    advisory: bool = False,
) -> Row:
    """Give the median of ``values`` with their range; without values the row stays open."""
    value = median(values) if values else None
    judged = max(values) if values and target is not None and target.bound == "≤" else value
    return Row(
        gate=gate,
        measure=measure,
        target=None if target is None else str(target),
        value=value,
        low=min(values, default=None),
        high=max(values, default=None),
        n=len(values),
        met=None if target is None or judged is None else target.met_by(judged),
        advisory=advisory,
    )
