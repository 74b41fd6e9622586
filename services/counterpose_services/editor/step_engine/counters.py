"""What the engine has done so far: calls, rows, and how full the calls were."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class StepCounters:
    """Counts of all calls; ``offered`` is what they could hold, ``network_s`` the seconds inside them."""

    calls: int = 0
    rows: int = 0
    offered: int = 0
    network_s: float = 0.0
    shrunk: int = 0

    @property
    def occupancy(self) -> float:
        """The share of the offered rows that were used, in [0, 1]; 1 before the first call."""
        return self.rows / self.offered if self.offered else 1.0

    def count(self, rows: int, capacity: int, seconds: float) -> None:
        """Count a call."""
        self.calls += 1
        self.rows += rows
        self.offered += max(capacity, rows)
        self.network_s += seconds
