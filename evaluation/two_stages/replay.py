"""Replays a stress test in process: the product's own plan, stages and summary, over banked outcomes."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from counterpose_core.blobs import cache_key
from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.runs import Item, RequestCounts, Run
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate, StressTestSummary
from counterpose_core.suite import Suite
from counterpose_core.types import RunState
from counterpose_gateway.methods.stress_test.confirm.stages import next_stage
from counterpose_gateway.methods.stress_test.plan import prepare_stress_test
from counterpose_gateway.methods.stress_test.prepared import first_items
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.services.clients import calling_services, services_of
from counterpose_gateway.settings import GatewaySettings

from .bank import Bank, Outcome, outcome_key
from .stretch import Folder, Stretch

_BEGAN = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
"""A replay has no times of its own."""

_CHUNK = 60
"""Items after which the bank is written: about a minute's work."""

Make = Callable[[Sequence[PlannedItem], StressTestConfig], Mapping[str, Outcome]]
"""Makes items that the bank lacks; returns each one's outcome by its item key."""


Answer = Callable[[Iterable[tuple[str, str]], Sequence[str]], Mapping[str, Mapping[str, Scored]]]
"""The answers of named classifiers to images, given as (name, true class), by image and classifier."""


@dataclass(frozen=True)
class Replayed:
    """A finished run: its items in order, and its summary."""

    create: StressTestCreate
    folder: Folder
    items: Sequence[Item]
    summary: StressTestSummary

    @property
    def service_seconds(self) -> float:
        """Seconds that its items spent in services."""
        spent = (item.result.service_seconds.values() for item in self.items if item.result)
        return sum(sum(each) for each in spent)

    @property
    def images(self) -> int:
        """The number of images that were made and judged."""
        return sum(item.result is not None and item.kind != "caption" for item in self.items)


@dataclass(frozen=True)
class Planned:
    """A run before its first item."""

    config: StressTestConfig
    items: Sequence[PlannedItem]


def plan(
    create: StressTestCreate, stretch: Stretch, folder: Folder, suite: Suite, settings: GatewaySettings
) -> Planned:
    """Plan a run on a folder as the gateway does, its classifiers asked of the services."""
    return asyncio.run(_planned(create, stretch, folder, suite, settings))


async def _planned(
    create: StressTestCreate, stretch: Stretch, folder: Folder, suite: Suite, settings: GatewaySettings
) -> Planned:
    async with calling_services(settings) as caller:
        prepared = await prepare_stress_test(
            create,
            dataset=stretch.dataset_of(folder),
            sources=SourceTable.of(stretch.sources_of(folder)),
            suite=suite,
            services=services_of(caller),
        )
    return Planned(prepared.config, list(first_items(prepared)))


def replay(
    create: StressTestCreate, folder: Folder, planned: Planned, bank: Bank, make: Make, answer: Answer
) -> Replayed:
    """Run every stage and sum up; items that the bank lacks are made and kept."""
    run, items = work_off(planned, bank, make, answer)
    return Replayed(create, folder, items, summarize(run, items))


def work_off(planned: Planned, bank: Bank, make: Make, answer: Answer) -> tuple[Run, list[Item]]:
    """Run every stage; return the run when it has ended, and its items."""
    items = _ended(planned.items, planned.config, bank, make, answer, stage=1, first=0)
    stage = 1
    while (more := next_stage(_run(planned.config, items, stage, "finalizing"), items)) is not None:
        stage += 1
        wanted = list(more.items)
        items += _ended(wanted, planned.config, bank, make, answer, stage=stage, first=len(items))
    return _run(planned.config, items, stage, "completed"), items


def _ended(
    planned: Sequence[PlannedItem],
    config: StressTestConfig,
    bank: Bank,
    make: Make,
    answer: Answer,
    *,
    stage: int,
    first: int,
) -> list[Item]:
    keys = {item.item_key: outcome_key(item, _instruction(item), config) for item in planned}
    missing = {keys[item.item_key]: item for item in planned if keys[item.item_key] not in bank}
    for chunk in _chunks(list(missing.values())):
        made = make(chunk, config)
        bank.add({keys[item_key]: outcome for item_key, outcome in made.items()})
    outcomes = {item.item_key: bank[keys[item.item_key]] for item in planned}
    seen = answer(_images(planned, outcomes), config.request.classifiers)
    return [
        _item(item, outcomes[item.item_key], seen, stage, first + number)
        for number, item in enumerate(planned)
    ]


def _chunks(missing: Sequence[PlannedItem]) -> Iterator[list[PlannedItem]]:
    """Whole groups, as the pipeline makes the items of a source together; a kill loses one chunk at most."""
    chunk: list[PlannedItem] = []
    for _, group in groupby(sorted(missing, key=_group), key=_group):
        chunk += group
        if len(chunk) >= _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _group(item: PlannedItem) -> str:
    return item.item_group


def _instruction(item: PlannedItem) -> Instruction | None:
    return None if item.instruction is None else Instruction.model_validate(item.instruction)


def _images(planned: Iterable[PlannedItem], outcomes: Mapping[str, Outcome]) -> list[tuple[str, str]]:
    """The images to classify: those that were kept, and their sources; a caption has none."""
    found: list[tuple[str, str]] = []
    for item in planned:
        outcome = outcomes[item.item_key]
        if outcome.state == "done" and outcome.result is not None and item.kind != "caption":
            found += [(item.source_image, item.label), (outcome.result.image, item.label)]
    return found


def _item(
    planned: PlannedItem,
    outcome: Outcome,
    seen: Mapping[str, Mapping[str, Scored]],
    stage: int,
    ordinal: int,
) -> Item:
    result = outcome.result
    if result is not None and outcome.state == "done" and planned.kind != "caption":
        answered = {
            "predictions": dict(seen[result.image]),
            "original_predictions": dict(seen[planned.source_image]),
        }
        result = result.model_copy(update=answered)
    return Item(
        id=planned.item_key,
        ordinal=ordinal,
        kind=planned.kind,
        item_group=planned.item_group,
        source_image=planned.source_image,
        label=planned.label,
        edit_type=planned.edit_type,
        slot=planned.slot,
        stage=stage,
        state=outcome.state,
        reason=outcome.reason,
        code=outcome.code,
        detail=outcome.detail,
        result=result,
        instruction=_instruction(planned),
    )


def _run(config: StressTestConfig, items: Sequence[Item], stage: int, state: RunState) -> Run:
    ended = Counter(item.state for item in items)
    counts = {name: ended[name] for name in ("done", "filtered", "failed", "cancelled")}
    resolved = config.model_dump(mode="json")
    return Run(
        id=cache_key(config=resolved)[:32],
        kind="stress-test",
        state=state,
        dataset=config.request.dataset,
        created_at=_BEGAN,
        started_at=_BEGAN,
        ended_at=_BEGAN,
        request_counts=RequestCounts(total=len(items), pending=0, **counts),
        resolved_config=resolved,
        stage=stage,
    )
