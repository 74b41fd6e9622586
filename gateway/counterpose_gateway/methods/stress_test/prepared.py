"""A stress test that can be run: its sources, divided, and the items of its first stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.item_counts import edits_per_source
from counterpose_gateway.methods.stress_test.division import Division, divide
from counterpose_gateway.methods.stress_test.screen.items import plan_items
from counterpose_gateway.methods.stress_test.transforms.given import Pairs
from counterpose_gateway.methods.stress_test.transforms.plan import transform_items
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.source_table import SourceTable


@dataclass(frozen=True)
class Prepared:
    """A request that can be run: its configuration, the sources it takes, by groups, and their division.

    ``second`` are photographs of another dataset that stand behind their objects, or given pairs, or None.
    """

    config: StressTestConfig
    sources: SourceTable
    division: Division
    second: SourceTable | Pairs | None = None


def first_items(prepared: Prepared, first: int = 0) -> Iterator[PlannedItem]:
    """Plan the items of the first stage from an ordinal on: all edits, then operations on all sources."""
    config, division = prepared.config, prepared.division
    edits = 0
    if config.edits_captions:
        edits = len(division.screened) * edits_per_source(config.request) + len(division.fresh)
        if first < edits:
            yield from plan_items(config, division.screened, division.fresh, first=first)
    if config.transforms is not None:
        own = transform_items(config, prepared.sources, prepared.second, max(0, first - edits))
        yield from (replace(item, ordinal=edits + item.ordinal) for item in own)


def divided(config: StressTestConfig, sources: SourceTable) -> Division:
    """Divide the sources between screen and confirmation; operations take all of them."""
    if not config.edits_captions:
        return Division(sources, sources.take(np.array([], dtype=np.intp)), None)
    return divide(config.request, sources, redraws=config.redraw is not None)
