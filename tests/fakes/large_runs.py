"""Runs whose items are stored in chunks: a made-up method, and a process that halts between two of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import event

from counterpose_core.contract.runs import Run
from counterpose_core.errors import CounterposeError
from counterpose_core.types import RunKind
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records import pace
from counterpose_gateway.records.items import LeasedStage, PlannedItem
from counterpose_gateway.records.sources import NewSource
from counterpose_gateway.runs.large_plans import PlanInputs
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.worker.planner import Planner
from fakes.ledger_worker import acknowledge
from fakes.ledgers import IMAGE, config
from fakes.methods import method_of

KIND: RunKind = "stress-test"
PER_SOURCE = 4
SMALL_CHUNK = 3
FOR_EVER = 3600.0
Moment = Literal["within-a-chunk", "after-a-chunk", "within-the-last", "after-the-last"]


class FourOfEach:
    """Plans four edits of each source that it sees; ``error`` is raised before the item of that ordinal."""

    def __init__(self, error: CounterposeError | None = None, before: int = 0) -> None:
        self._error = error
        self._before = before

    def rest_of_plan(self, run: Run, inputs: PlanInputs, first: int) -> Iterator[PlannedItem]:
        """Plan the items from the ordinal ``first`` on."""
        for item in four_of_each(inputs.sources(run.dataset))[first:]:
            if self._error is not None and item.ordinal == self._before:
                raise self._error
            yield item


def four_of_each(sources: Sequence[Any]) -> list[PlannedItem]:
    """Four edits of each source."""
    return [
        PlannedItem(
            item_key=f"{source.id[:20]}-{slot}", ordinal=PER_SOURCE * number + slot, kind="edit",
            edit_type="object", item_group=source.id, source_image=source.image, label="sled", slot=slot,
        )
        for number, source in enumerate(sources) for slot in range(PER_SOURCE)
    ]  # fmt: skip


def add_sources(ledger: Ledger, number: int, *, first: int = 0) -> None:
    """Add so many images of sleds to the dataset ``demo``."""
    ledger.datasets.create("demo", None)
    ledger.datasets.add(
        "demo",
        [
            NewSource(
                image=IMAGE[:-4] + f"{place:04x}", label="sled", filename=f"{place}.png", caption=None,
                width=64, height=64,
            )
            for place in range(first, first + number)
        ],
    )  # fmt: skip


def create_large_run(ledger: Ledger, *, sources: int = 5, stored: int = SMALL_CHUNK) -> str:
    """A run of so many sources of which the first items are stored, and whose creator is gone."""
    add_sources(ledger, sources)
    run_id = ledger.runs.create(
        kind=KIND, dataset="demo", config=config(),
        items=four_of_each(ledger.datasets.sources("demo"))[:stored],
        fingerprint="f" * 64, plan_sources={"demo": sources},
    ).id  # fmt: skip
    creator = LeasedStage(run_id=run_id, kind=KIND, stage=1, first=stored, fence=1)
    ledger.stages.release(creator)
    return run_id


class NoStore:
    """A store that nobody reads."""

    def get(self, ref: str) -> bytes:
        """Refuse."""
        raise AssertionError(ref)


def large_planner(
    ledger: Ledger, method: FourOfEach | None = None, *, lease_seconds: float = 30.0
) -> Planner:
    """What plans the rest of such runs."""
    large: dict[str, AnyMethod] = {KIND: method_of(KIND, rest_of_plan=(method or FourOfEach()).rest_of_plan)}
    return Planner(ledger, large, lease_seconds=lease_seconds, most_items=1_000_000, store=NoStore())


async def plan_rest(planner: Planner) -> bool:
    """Plan the rest of one run; False where none waits."""
    leased = await planner.lease()
    if leased is not None:
        await planner.plan(leased)
    return leased is not None


class HaltingLedger(Ledger):
    """A ledger whose process halts at a moment of its ``chunk``-th chunk, after writing so to ``log``."""

    def __init__(self, url: str, moment: Moment, chunk: int, log: Path) -> None:
        super().__init__(url)
        self._moment, self._left, self._log = moment, chunk, log
        self._armed = False
        event.listen(self._session.database.engine, "commit", self._before_commit)
        stages = self.stages
        stages.store_first = partial(self._store, stages.store_first)  # type: ignore[method-assign]

    def _store(
        self,
        store: Callable[..., tuple[LeasedStage, float]],
        leased: LeasedStage,
        items: Sequence[PlannedItem],
        *,
        last: bool,
    ) -> tuple[LeasedStage, float]:
        """Store the chunk; halt within or after its transaction."""
        ours = last if self._moment.endswith("the-last") else self._left == 0
        self._left -= 1
        self._armed = ours and self._moment.startswith("within")
        stored = store(leased, items, last=last)
        if ours:
            self._halt()
        return stored

    def _before_commit(self, _: Any) -> None:
        if self._armed:
            self._halt()

    def _halt(self) -> None:
        acknowledge(self._log, self._moment)
        time.sleep(FOR_EVER)


def plan_and_halt(url: str, log: Path, moment: Moment, chunk: int) -> None:
    """Plan the rest of a run in small chunks, and halt."""
    pace.CHUNK = SMALL_CHUNK
    planner = large_planner(HaltingLedger(url, moment, chunk, log), lease_seconds=0.3)
    while not asyncio.run(plan_rest(planner)):
        time.sleep(0.02)
