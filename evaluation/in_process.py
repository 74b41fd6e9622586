"""Runs a method in this process: the product's plan, work and stages over given services, no database."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.datasets import Dataset, Source
from counterpose_core.contract.runs import AnyItem, RequestCounts, Run, RunItem
from counterpose_core.errors import NotFound, UnknownDataset, error_for
from counterpose_core.suite import Suite
from counterpose_core.types import RunKind, RunState
from counterpose_gateway.records.items import LeasedGroup, LeasedItem, LeasedStage, PlannedItem
from counterpose_gateway.records.outcomes import Done, Failed, Outcome
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.records.tenants import DEFAULT_TENANT, Allowance, Quota, Used
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.runs.stages import StageResults
from counterpose_gateway.services.ports import Services

_BEGAN = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
"""A run in one process has no times of its own."""
_MOST_ITEMS = 1_000_000

Instruction = Mapping[str, Any] | None


@dataclass(frozen=True)
class EndedRun:
    """A run and all its items, in planned order."""

    run: Run
    items: Sequence[RunItem[Any]]


class _HeldDatasets:
    """Images of datasets by name."""

    def __init__(self, held: Mapping[str, Sequence[Source]]) -> None:
        self._held = held

    def get(self, name: str) -> Dataset:
        """Describe a dataset; raises `UnknownDataset`."""
        if name not in self._held:
            raise UnknownDataset(f"there is no dataset {name!r}")
        sources = self._held[name]
        return Dataset(
            name=name,
            classes=list(dict.fromkeys(each.label for each in sources)),
            n_sources=len(sources),
            digest=cache_key(sources=[each.id for each in sources]),
            created_at=_BEGAN,
        )

    def sources(self, name: str, *, most: int | None = None) -> Sequence[Source]:
        """The images of a dataset, or the first of them."""
        return self._held[name][:most]

    def table(self, name: str, *, most: int | None = None) -> SourceTable:
        """The images of a dataset as a table."""
        return SourceTable.of(self.sources(name, most=most))


class HeldLedger:
    """What methods read of a ledger while they plan: images of datasets, and ended runs.

    It is its own part for runs, items and access.
    """

    def __init__(
        self,
        held: Mapping[str, Sequence[Source]] | None = None,
        ended: Mapping[str, EndedRun] | None = None,
    ) -> None:
        self.datasets = _HeldDatasets(held or {})
        self.ended = dict(ended or {})
        self.runs = self.items = self.access = self

    def allowance(self) -> Allowance:
        """No tenant has a quota here."""
        return Allowance(DEFAULT_TENANT, Quota(), Used(), _BEGAN)

    def get(self, run_id: str, kind: RunKind | None = None) -> Run:
        """An ended run; raises `NotFound`."""
        found = self.ended.get(run_id)
        if found is None or kind not in (None, found.run.kind):
            raise NotFound(f"there is no run {run_id!r}")
        return found.run

    def of(self, run_id: str, shape: type[AnyItem], *, from_ordinal: int = 0) -> Iterator[AnyItem]:
        """The items of an ended run."""
        return _items_of(self.ended[run_id].items[from_ordinal:], shape)

    def recorded(self, run_id: str, *, first: int = 0, number: int | None = None) -> Iterator[RecordedItem]:
        """The items of an ended run as documents."""
        return map(RecordedItem.of, self.ended[run_id].items[first:][:number])


def context_of(
    services: Services, store: BlobStore, suite: Suite, ledger: HeldLedger | None = None
) -> RunContext:
    """What a method plans with."""
    return RunContext(
        services=services,
        suite=suite,
        store=store,
        # Methods that are run here ask for no more than is held, and cache nothing.
        ledger=cast(Any, HeldLedger() if ledger is None else ledger),
        cache=cast(Any, None),
        max_items_per_run=_MOST_ITEMS,
    )


def work_off(method: AnyMethod, create: BaseModel, context: RunContext) -> EndedRun:
    """Run a request to its end.

    Raises:
        CounterposeError: it cannot be planned, or an item failed for a reason that another time may not have.
    """
    return asyncio.run(_worked_off(method, create, context))


async def _worked_off(method: AnyMethod, create: BaseModel, context: RunContext) -> EndedRun:
    planned = await method.plan(create, context)
    config = planned.config.model_dump(mode="json")
    items, stage, more = list[RunItem[Any]](), 1, list(planned.items)
    instructions = dict[str, Instruction]()
    while more:
        instructions |= {item.item_key: item.instruction for item in more}
        items += await _ended(more, config, method, context, stage=stage, first=len(items))
        run = _run(config, items, method.kind, stage, "finalizing")
        next_stage = method.next_stage
        following = (
            None if next_stage is None else next_stage(run, _results(run, items, instructions, method))
        )
        more, stage = list(following.items) if following else [], stage + 1
    return EndedRun(_run(config, items, method.kind, stage, "completed"), items)


class _Ended:
    """What planning a further stage reads; the lease is nobody else's."""

    def __init__(self, items: Sequence[RunItem[Any]], instructions: Mapping[str, Instruction]) -> None:
        self._items, self._instructions = items, instructions
        self.items = self.stages = self

    def of(self, run_id: str, shape: type[AnyItem]) -> Iterator[AnyItem]:
        """The items so far."""
        return _items_of(self._items, shape)

    def recorded(self, run_id: str) -> Iterator[RecordedItem]:
        """The items so far, as documents: with the instructions as they were planned."""
        for item in self._items:
            yield RecordedItem.of(item)._replace(instruction=self._instructions[item.id])

    def is_ours(self, leased: LeasedStage) -> bool:
        """Always."""
        return True


def _items_of(items: Iterable[RunItem[Any]], shape: type[AnyItem]) -> Iterator[AnyItem]:
    for item in items:
        assert isinstance(item, shape)
        yield item


def _results(
    run: Run, items: Sequence[RunItem[Any]], instructions: Mapping[str, Instruction], method: AnyMethod
) -> StageResults:
    leased = LeasedStage(run_id=run.id, kind=run.kind, stage=run.stage, first=len(items), fence=1)
    return StageResults(leased, method.item, cast(Any, _Ended(items, instructions)))


class _Record:
    """Keeps what the method records of its items."""

    def __init__(self) -> None:
        self.ended_as: dict[str, Outcome] = {}

    async def ended(self, outcomes: Sequence[tuple[LeasedItem, Outcome]]) -> None:
        """Keep results; a failure of the services ends the evaluation.

        Raises:
            CounterposeError: an item failed for a reason that another time may not have.
        """
        for item, outcome in outcomes:
            if isinstance(outcome, Failed) and outcome.retryable:
                raise error_for(outcome.code, outcome.detail)
            self.ended_as[item.item_key] = outcome

    async def cancelled(self) -> bool:
        """Go on: nobody cancels."""
        return False


async def _ended(
    planned: Sequence[PlannedItem],
    config: dict[str, Any],
    method: AnyMethod,
    context: RunContext,
    *,
    stage: int,
    first: int,
) -> list[RunItem[Any]]:
    groups: dict[str, list[LeasedItem]] = {}
    for item in planned:
        leased = LeasedItem(**vars(item), id=item.item_key, fence=1, attempt=1)
        groups.setdefault(item.item_group, []).append(leased)
    record = _Record()
    for name, leased_items in groups.items():
        group = LeasedGroup(
            run_id=method.kind, kind=method.kind, config=config, item_group=name, items=leased_items
        )
        # The index of results is for methods that cache; the store alone has what these read.
        store = cast(Any, context.store)
        await method.process(group, services=context.services, record=record, store=store)
    return [
        _item(method, item, record.ended_as[item.item_key], stage, first + number)
        for number, item in enumerate(planned)
    ]


def _item(
    method: AnyMethod, planned: PlannedItem, outcome: Outcome, stage: int, ordinal: int
) -> RunItem[Any]:
    failed = isinstance(outcome, Failed)
    found: RunItem[Any] = method.item.model_validate(
        {
            "id": planned.item_key,
            "ordinal": ordinal,
            "kind": planned.kind,
            "item_group": planned.item_group,
            "source_image": planned.source_image,
            "label": planned.label,
            "slot": planned.slot,
            "stage": stage,
            "state": "done" if isinstance(outcome, Done) else "failed" if failed else "filtered",
            "code": outcome.code if isinstance(outcome, Failed) else None,
            "reason": None if isinstance(outcome, Done | Failed) else outcome.reason,
            "result": None if isinstance(outcome, Failed) else outcome.result,
            "instruction": planned.instruction,
        }
    )
    return found


def _run(
    config: dict[str, Any], items: Sequence[RunItem[Any]], kind: RunKind, stage: int, state: RunState
) -> Run:
    ended = Counter(item.state for item in items)
    counts = {name: ended[name] for name in ("done", "filtered", "failed", "cancelled")}
    return Run(
        id=cache_key(config=config)[:32],
        kind=kind,
        state=state,
        dataset="",
        created_at=_BEGAN,
        started_at=_BEGAN,
        ended_at=_BEGAN,
        request_counts=RequestCounts(total=len(items), pending=0, **counts),
        resolved_config=config,
        stage=stage,
    )
