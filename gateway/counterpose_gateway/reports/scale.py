"""Linear scales of the reports' plots: the position of a value in SVG units, and round ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

_NICE = (1.0, 2.0, 5.0)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Scale:
    """A linear scale from the values ``low`` to ``high`` to SVG units from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Position of a value, kept inside the axis."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, steps: int) -> list[float]:
        """Round values inside the scale, in at most ``steps`` steps of 1, 2 or 5 times a power of ten."""
        raw = (self.high - self.low) / steps
        power = 10.0 ** math.floor(math.log10(raw))
        step = next((nice * power for nice in _NICE if nice * power >= raw), 10.0 * power)
        first, last = math.ceil(self.low / step - _ROUNDING), math.floor(self.high / step + _ROUNDING)
        return [index * step for index in range(first, last + 1)]
