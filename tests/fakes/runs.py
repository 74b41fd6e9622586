"""A whole stress test over the fakes, from request to recorded outcomes."""

from __future__ import annotations

from collections import Counter

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.plan import prepare_stress_test
from counterpose_gateway.methods.stress_test.prepared import first_items
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.services.ports import Services
from fakes.recorder import FakeRecorder, Recorded, lease_all
from fakes.world import FakeWorld, fake_dataset, fake_suite


def stress_test_request(**changes: object) -> StressTestCreate:
    """Both fake classifiers, all edit types, no random baseline, seed 3, with ``changes``."""
    known = {"dataset": "demo", "classifiers": ["steady", "leaning"], "lance_r_edits_per_image": 0, "seed": 3}
    return StressTestCreate.model_validate({**known, **changes})


async def planned(
    sources: list[Source], services: Services, *, redraw: str | None = None, **changes: object
) -> tuple[StressTestConfig, list[PlannedItem]]:
    """Plan the request over ``sources`` under the miniature suite; images are drawn again by ``redraw``."""
    prepared = await prepare_stress_test(
        stress_test_request(**changes),
        dataset=fake_dataset(len(sources)),
        sources=SourceTable.of(sources),
        suite=fake_suite(redraw=redraw),
        services=services,
    )
    return prepared.config, list(first_items(prepared))


async def stress_test(
    world: FakeWorld,
    sources: list[Source],
    services: Services,
    record: FakeRecorder | None = None,
    **changes: object,
) -> tuple[list[PlannedItem], FakeRecorder]:
    """Plan, lease and process all; return the plan and what was recorded."""
    config, items = await planned(sources, services, redraw=None, **changes)
    record = record or FakeRecorder()
    for group in lease_all(config, items):
        await process(group, services=services, record=record, store=world.store)
    return items, record


def outcome(
    items: list[PlannedItem], record: FakeRecorder, kind: ItemKind, edit_type: str | None = None
) -> Recorded:
    """The outcome of the first item of a kind and edit type."""
    item = next(item for item in items if item.kind == kind and item.edit_type == edit_type)
    return record.outcomes[f"item-{item.ordinal}"]


def states(record: FakeRecorder) -> Counter[str]:
    """Count items by final state, and the filtered ones by reason."""
    return Counter(recorded.reason or recorded.state for recorded in record.outcomes.values())
