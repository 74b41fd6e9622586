"""What every step of LANCE is about: one source of a run, and its caption."""

from __future__ import annotations

from dataclasses import dataclass

from counterpose_core.contract.regions import EditRegion
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_gateway.records.items import LeasedItem


@dataclass(frozen=True)
class Subject:
    """An image of the user's and its caption, under a run's configuration; ``source`` is one of its items.

    ``region`` is where its edits may change it, None for everywhere.
    """

    config: StressTestConfig
    source: LeasedItem
    caption: str
    region: EditRegion | None = None

    @property
    def image(self) -> str:
        """The image."""
        return self.source.source_image

    @property
    def label(self) -> str:
        """What it shows."""
        return self.source.label
