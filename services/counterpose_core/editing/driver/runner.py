"""What runs walks: the driver of one call, or an engine that many requests share."""

from __future__ import annotations

from typing import Protocol

from counterpose_core.editing.driver.evaluation import Owner, T, Walk
from counterpose_core.types import Cost


class Runner(Protocol):
    """Runs walks to their ends, and knows what each owner's evaluations cost."""

    def run(self, walk: Walk[T]) -> T:
        """Run one walk to its end."""
        ...

    def cost(self, owner: Owner) -> Cost:
        """Return the cost of an owner's evaluations so far."""
        ...
