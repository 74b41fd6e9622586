"""Planning a stage: stored in chunks, opened after the last one, streamed, and bounded."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from counterpose_core.contract.runs import AnyItem, Item, RequestCounts, Run, RunItem
from counterpose_core.errors import CounterposeError, InternalError, LeaseLost, QuotaExceeded
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records import pace
from counterpose_gateway.records.items import LeasedStage, PlannedItem
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.runs.stages import (
    MAX_STAGES,
    StagePlan,
    StageResults,
    plan_stage,
)
from counterpose_gateway.worker.planner import Planner
from fakes.methods import method_of, never
from fakes.staged_runs import KIND, FourStages, items_of_stage

FIRST = 4
DONE = Item(id="1", ordinal=0, kind="edit", item_group="s", source_image="a" * 64, label="sled", state="done")


class WrittenDown:
    """A ledger that writes down what is asked of it; after ``ours`` looks the lease is lost."""

    def __init__(self, ours: int = 1000, n_items: int = FIRST) -> None:
        self.calls: list[str] = []
        self.written: list[PlannedItem] = []
        self._ours = ours
        # One stands in for the three parts that planning uses: no two of them share a verb that it calls.
        self.runs = self.items = self.stages = self
        self._n_items = n_items

    def get(self, run_id: str) -> Run:
        counts = RequestCounts(total=FIRST, pending=0, done=FIRST, filtered=0, failed=0, cancelled=0)
        return Run(
            id=run_id, kind=KIND, state="finalizing", dataset="demo", stage=3,
            created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), request_counts=counts, resolved_config={},
        )  # fmt: skip

    def of(self, run_id: str, shape: type[AnyItem]) -> Iterator[AnyItem]:
        assert shape is Item
        for ordinal in range(self._n_items):
            yield shape.model_validate(DONE.model_dump() | {"ordinal": ordinal})

    def recorded(self, run_id: str) -> Iterator[RecordedItem]:
        yield from map(RecordedItem.of, self.of(run_id, Item))

    def is_ours(self, leased: LeasedStage) -> bool:
        self._ours -= 1
        return self._ours >= 0

    def clear(self, leased: LeasedStage) -> None:
        self.calls.append("clear")

    def store(self, leased: LeasedStage, items: Sequence[PlannedItem]) -> float:
        self.calls.append(f"store {len(items)}")
        self.written += items
        return 0.0

    def open(self, leased: LeasedStage, n_items: int) -> None:
        self.calls.append(f"open {n_items}")

    def end(self, leased: LeasedStage) -> None:
        self.calls.append("end")

    def lease(self, kinds: Collection[Any], *, seconds: float) -> LeasedStage | None:
        raise NotImplementedError

    def renew(self, leased: LeasedStage, seconds: float) -> None:
        raise NotImplementedError

    def fail(self, leased: LeasedStage, error: CounterposeError) -> None:
        raise NotImplementedError

    def release(self, leased: LeasedStage) -> None:
        raise NotImplementedError


class Planning(FourStages):
    """Gives the plan it was made with."""

    def __init__(self, plan: StagePlan | None) -> None:
        super().__init__()
        self._plan = plan

    def next_stage(self, run: Run, results: Iterator[RunItem[Any]]) -> StagePlan | None:
        """Read all results, then answer."""
        self.asked += [item.ordinal for item in results]
        return self._plan


LEASED = LeasedStage(run_id="run-1", kind=KIND, stage=4, first=FIRST, fence=7)


def plan(method: FourStages, ledger: WrittenDown, *, most_items: int = 1000) -> None:
    plan_stage(LEASED, method.next_stage, Item, cast(Ledger, ledger), most_items=most_items)


def test_a_plan_is_stored_in_chunks_and_opened_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "CHUNK", 3)
    ledger = WrittenDown()
    plan(FourStages(many=7), ledger)
    assert ledger.calls == ["clear", "store 3", "store 3", "store 1", "open 7"]
    assert [item.item_key for item in ledger.written] == [f"many-{number}" for number in range(7)]


def test_a_plan_without_items_opens_an_empty_stage() -> None:
    ledger = WrittenDown()
    plan(Planning(StagePlan(())), ledger)
    assert ledger.calls == ["clear", "open 0"]


def test_a_missing_plan_ends_the_run() -> None:
    ledger = WrittenDown()
    plan(Planning(None), ledger)
    assert ledger.calls == ["clear", "end"]


def test_every_result_is_read_in_order() -> None:
    method = Planning(None)
    plan(method, WrittenDown(n_items=1000))
    assert method.asked == list(range(1000))


def test_a_planner_that_lost_its_lease_stops_reading_at_its_next_chunk() -> None:
    method, ledger = Planning(None), WrittenDown(ours=1, n_items=10 * pace.CHUNK)
    with pytest.raises(LeaseLost, match="stage 4 of run 'run-1'"):
        plan(method, ledger)
    assert ledger.calls == ["clear"]


class PlanningFromDocuments(Planning):
    """Reads the documents of all results."""

    def next_stage(self, run: Run, results: Iterator[RunItem[Any]]) -> StagePlan | None:
        """Read them, then answer."""
        assert isinstance(results, StageResults)
        self.asked += [int(item.slot) for item in results.recorded()]
        return None


def test_documents_are_read_while_the_lease_holds() -> None:
    method, ledger = PlanningFromDocuments(None), WrittenDown(n_items=1000)
    plan(method, ledger)
    assert (len(method.asked), ledger.calls) == (1000, ["clear", "end"])
    with pytest.raises(LeaseLost, match="stage 4 of run 'run-1'"):
        plan(method, WrittenDown(ours=1, n_items=1000))


def test_a_plan_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "CHUNK", 3)
    ledger, furthest = WrittenDown(), [0]

    def items() -> Iterator[PlannedItem]:
        for item in items_of_stage(str(number) for number in range(20)):
            furthest[0] = max(furthest[0], item.ordinal - len(ledger.written))
            yield item

    plan(Planning(StagePlan(items())), ledger)
    assert ledger.calls[-1] == "open 20"
    assert furthest == [2]


def test_ordinals_not_counting_from_0_are_refused_by_item_key() -> None:
    ledger = WrittenDown()
    wrong = [replace(item, ordinal=item.ordinal + 1) for item in items_of_stage(["a", "b"])]
    with pytest.raises(InternalError, match="item 'a' has the ordinal 1, not 0"):
        plan(Planning(StagePlan(wrong)), ledger)
    assert ledger.calls == ["clear"]


def test_a_plan_over_the_quota_is_refused_before_it_is_stored() -> None:
    ledger = WrittenDown()
    plan(FourStages(many=6), ledger, most_items=FIRST + 6)
    assert ledger.calls[-1] == "open 6"
    with pytest.raises(QuotaExceeded, match="stage 4 the run would have more than 9 items"):
        plan(FourStages(many=6), ledger, most_items=FIRST + 5)
    assert ledger.calls[-1] == "clear"


def test_a_method_that_never_ends_is_stopped() -> None:
    ledger, leased = WrittenDown(), replace(LEASED, stage=MAX_STAGES + 1)
    next_stage = Planning(StagePlan(())).next_stage
    with pytest.raises(InternalError, match=f"planned {MAX_STAGES} stages without an end"):
        plan_stage(leased, next_stage, Item, cast(Ledger, ledger), most_items=1000)
    assert ledger.calls == []


class Asked(WrittenDown):
    """Writes down for which kinds a stage is leased."""

    def lease(
        self,
        kinds: Collection[Any],
        *,
        seconds: float,
        first_of: Collection[Any] = (),
        run_id: str | None = None,
    ) -> LeasedStage | None:
        self.calls.append(f"{list(kinds)} {list(first_of)}")
        return None


def leases(*methods: AnyMethod) -> list[str]:
    """What a planner of these methods asks of the ledger."""
    ledger = Asked()
    planner = Planner(
        cast(Ledger, ledger),
        {method.kind: method for method in methods},
        lease_seconds=30.0,
        most_items=1000,
    )
    assert asyncio.run(planner.lease()) is None
    return ledger.calls


def test_stages_are_leased_of_methods_that_plan_them_alone() -> None:
    staged = method_of(KIND, next_stage=FourStages().next_stage)
    whole = method_of("gate")
    large = method_of("shift-benchmark", rest_of_plan=never)
    assert leases(staged, whole, large) == ["['stress-test'] ['shift-benchmark']"]
    assert leases(whole, staged) == ["['stress-test'] []"]


def test_a_planner_without_such_methods_asks_nothing_of_the_ledger() -> None:
    assert leases(method_of("gate")) == []
