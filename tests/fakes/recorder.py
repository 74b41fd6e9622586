"""A recorder in memory, with the run and items that the ledger would make from its records."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.runs import Item, ItemResult, Provenance, RequestCounts, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import CounterposeError, error_for
from counterpose_core.types import ItemState
from counterpose_gateway.records.items import LeasedGroup, LeasedItem, PlannedItem
from counterpose_gateway.records.outcomes import Done, Filtered, Outcome

RUN_ID = "run-1"


@dataclass(frozen=True)
class Recorded:
    """The outcome of one item."""

    state: ItemState
    reason: str | None = None
    detail: str | None = None
    error: CounterposeError | None = None
    result: ItemResult | None = None


@dataclass
class FakeRecorder:
    """Outcomes by item id; a second outcome for one item fails the test.

    ``cancel_after`` polls, the run counts as being cancelled.
    """

    outcomes: dict[str, Recorded] = field(default_factory=dict)
    cancel_after: int | None = None
    polls: int = 0

    async def ended(self, outcomes: Sequence[tuple[LeasedItem, Outcome]]) -> None:
        """Keep each."""
        for item, outcome in outcomes:
            if isinstance(outcome, Done):
                await self.done(item, outcome.result)
            elif isinstance(outcome, Filtered):
                await self.filtered(item, outcome.reason, outcome.detail, outcome.result)
            else:
                await self.failed(item, error_for(outcome.code, outcome.detail))

    async def done(self, item: LeasedItem, result: Provenance) -> None:
        """Keep the result."""
        self._keep(item, Recorded("done", result=_of_stress_test(result)))

    async def filtered(
        self, item: LeasedItem, reason: str, detail: str = "", result: Provenance | None = None
    ) -> None:
        """Keep the reason."""
        made = None if result is None else _of_stress_test(result)
        self._keep(item, Recorded("filtered", reason=reason, detail=detail, result=made))

    async def failed(self, item: LeasedItem, error: CounterposeError) -> None:
        """Keep the error."""
        self._keep(item, Recorded("failed", error=error))

    async def cancelled(self) -> bool:
        """Count the poll."""
        self.polls += 1
        return self.cancel_after is not None and self.polls > self.cancel_after

    def _keep(self, item: LeasedItem, outcome: Recorded) -> None:
        if item.id in self.outcomes:
            raise AssertionError(f"{item.id} was recorded twice")
        self.outcomes[item.id] = outcome


def _of_stress_test(result: Provenance) -> ItemResult:
    assert isinstance(result, ItemResult)
    return result


def lease_all(config: StressTestConfig, planned: Sequence[PlannedItem]) -> list[LeasedGroup]:
    """Lease every item, one group for each source."""
    sources = list(dict.fromkeys(item.item_group for item in planned))
    leased = [
        LeasedItem(
            **{member.name: getattr(item, member.name) for member in fields(item)},
            id=f"item-{item.ordinal}",
            fence=1,
            attempt=1,
        )
        for item in planned
    ]
    return [
        LeasedGroup(
            run_id=RUN_ID,
            kind="stress-test",
            config=config.model_dump(mode="json"),
            item_group=source,
            items=[item for item in leased if item.item_group == source],
        )
        for source in sources
    ]


def recorded_items(planned: Sequence[PlannedItem], record: FakeRecorder, *, stage: int = 1) -> list[Item]:
    """The items of a stage as the ledger would list them."""
    outcomes = [record.outcomes.get(f"item-{item.ordinal}", Recorded("pending")) for item in planned]
    return [_item(item, outcome, stage) for item, outcome in zip(planned, outcomes, strict=True)]


def _item(planned: PlannedItem, outcome: Recorded, stage: int) -> Item:
    return Item(
        id=f"item-{planned.ordinal}",
        ordinal=planned.ordinal,
        kind=planned.kind,
        item_group=planned.item_group,
        source_image=planned.source_image,
        label=planned.label,
        edit_type=planned.edit_type,
        slot=planned.slot,
        stage=stage,
        instruction=None if planned.instruction is None else Instruction.model_validate(planned.instruction),
        state=outcome.state,
        reason=outcome.reason,
        code=outcome.error.code if outcome.error else None,
        detail=outcome.error.detail if outcome.error else outcome.detail,
        attempts=1,
        result=outcome.result,
    )


def recorded_run(config: StressTestConfig, items: Sequence[Item]) -> Run:
    """The finished run that such items belong to, 90 seconds long."""
    states = Counter(item.state for item in items)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return Run(
        id=RUN_ID,
        kind="stress-test",
        state="completed",
        dataset=config.request.dataset,
        created_at=start,
        started_at=start,
        ended_at=start + dt.timedelta(seconds=90),
        request_counts=RequestCounts(
            total=len(items),
            pending=states["pending"] + states["leased"],
            done=states["done"],
            filtered=states["filtered"],
            failed=states["failed"],
            cancelled=states["cancelled"],
        ),
        resolved_config=config.model_dump(mode="json"),
    )
