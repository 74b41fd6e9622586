"""Links from a row of the report to the item it speaks of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import StressTestSummary

_OF_EACH_MODE = 3


@dataclass(frozen=True)
class Link:
    """Where an item is to be found: its picture in the report, or its line among the run's results."""

    href: str
    text: str


def item_links(items: Sequence[Item], shown: Collection[str]) -> dict[str, Link]:
    """A link for every item, inside the report where the item is ``shown``."""
    return {
        item.id: Link(
            # Relative to the report's own address, so that it holds behind any proxy.
            href=f"#item-{item.id}" if item.id in shown else f"results?from={item.ordinal}",
            text=f"item {item.ordinal}",
        )
        for item in items
    }


def named_items(summary: StressTestSummary, insights: int) -> list[str]:
    """The items that the report's tables name, those of its first ``insights`` first."""
    told = [insight.example_item for insight in summary.insights[:insights]]
    suspected = [
        item for mode in summary.failure_modes.values() for item in mode.example_items[:_OF_EACH_MODE]
    ]
    classes = [found.example_item for found in summary.classes.values() if found.example_item]
    return [*told, *suspected, *classes]
