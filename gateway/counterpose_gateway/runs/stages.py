"""Stages: the next items of a run are planned from the recorded results of the ones before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

from counterpose_core.contract.runs import AnyItem, Run, RunItem
from counterpose_core.errors import CounterposeError, InternalError, LeaseLost, QuotaExceeded
from counterpose_core.types import RunKind
from counterpose_gateway.records.items import LeasedStage, PlannedItem
from counterpose_gateway.records.pace import Pace
from counterpose_gateway.records.recorded_items import RecordedItem

Each = TypeVar("Each")

LOOK_AFTER = 250
"""Results that are read between two looks at the lease."""

MAX_STAGES = 1000
"""Without a limit, a method that never returns None would plan without end."""


@dataclass(frozen=True)
class StagePlan:
    """The items of a run's next stage, their ordinals counted from 0.

    ``items`` is read once and never held as a whole, so it may be a generator. After a plan without items
    the method is asked for the next stage at once.
    """

    items: Iterable[PlannedItem]


class StageResults(Iterator[RunItem[Any]]):
    """Every item of a run's stages in ordinal order, each in a final state; read once, in one of two forms.

    for item in results: ...              a model of each
    for item in results.recorded(): ...   its documents, at a tenth of the cost
    """

    def __init__(self, leased: LeasedStage, shape: type[RunItem[Any]], ledger: StageLedger) -> None:
        self._leased = leased
        self._ledger = ledger
        self._models = self._while_ours(ledger.items_of(leased.run_id, shape))

    def __next__(self) -> RunItem[Any]:
        return next(self._models)

    def recorded(self) -> Iterator[RecordedItem]:
        """Yield the items as they are recorded."""
        return self._while_ours(self._ledger.recorded_items(self._leased.run_id))

    def _while_ours(self, items: Iterable[Each]) -> Iterator[Each]:
        leased = self._leased
        for number, item in enumerate(items):
            # Nothing else would stop a planner that lost its lease while it reads for minutes.
            if number % LOOK_AFTER == 0 and not self._ledger.stage_is_ours(leased):
                raise LeaseLost(
                    f"stage {leased.stage} of run {leased.run_id!r} belongs to another planner now"
                )
            yield item


NextStage = Callable[[Run, StageResults], StagePlan | None]
"""Plans the stage after ``run.stage``, counted from 1, or returns None where no stage follows.

The answer depends on the run's resolved configuration and on the results alone: a process that is killed in
here is followed by another one, which plans the same stage again.

def next_stage(run: Run, results: StageResults) -> StagePlan | None:
    failures = [item for item in results if item.state == "done"]
    return StagePlan(confirmations(failures)) if run.stage == 1 else None
"""


class StageLedger(Protocol):
    """What planning needs of the ledger; `counterpose_gateway.ledger.Ledger` is one.

    Verbs that take a `LeasedStage` raise LeaseLost where it is no longer valid.
    """

    def run(self, run_id: str) -> Run:
        """Return the run as it stands."""
        ...

    def items_of(self, run_id: str, shape: type[AnyItem]) -> Iterator[AnyItem]:
        """Yield every item of the run's opened stages in ordinal order, read in chunks."""
        ...

    def recorded_items(self, run_id: str) -> Iterator[RecordedItem]:
        """Yield the same as documents."""
        ...

    def lease_stage(self, kinds: Collection[RunKind], *, seconds: float) -> LeasedStage | None:
        """Lease the planning of a run that waits for its next stage."""
        ...

    def renew_stage(self, leased: LeasedStage, seconds: float) -> None:
        """Prolong the lease."""
        ...

    def stage_is_ours(self, leased: LeasedStage) -> bool:
        """Return whether the lease still holds."""
        ...

    def clear_stage(self, leased: LeasedStage) -> None:
        """Delete what a planner that died has stored of the stage."""
        ...

    def store_planned(self, leased: LeasedStage, items: Sequence[PlannedItem]) -> float:
        """Store some more items of the stage, not visible before it opens; return the seconds of the lock."""
        ...

    def open_stage(self, leased: LeasedStage, n_items: int) -> None:
        """Add the stored items to the run."""
        ...

    def end_stages(self, leased: LeasedStage) -> None:
        """End the run: no stage follows."""
        ...

    def fail_stage(self, leased: LeasedStage, error: CounterposeError) -> None:
        """Note that the stage could not be planned."""
        ...

    def release_stage(self, leased: LeasedStage) -> None:
        """Give the lease back."""
        ...


def plan_stage(
    leased: LeasedStage,
    next_stage: NextStage,
    shape: type[RunItem[Any]],
    ledger: StageLedger,
    *,
    most_items: int,
) -> None:
    """Ask the run's method for the next stage and store it, or end the run.

    Args:
        leased: the lease of the stage.
        next_stage: the method's function.
        shape: the method's items.
        ledger: where results are read and the plan is stored.
        most_items: how many items the run may have in all.

    Raises:
        LeaseLost: another process plans the stage now, or the run was cancelled; nothing more is written.
        QuotaExceeded: the run would have more than ``most_items``.
        InternalError: the method's ordinals are wrong, an item key repeats, or it never ends.
    """
    if leased.stage > MAX_STAGES:
        raise InternalError(f"the method has planned {MAX_STAGES} stages without an end")
    ledger.clear_stage(leased)
    plan = next_stage(ledger.run(leased.run_id), StageResults(leased, shape, ledger))
    if plan is None:
        ledger.end_stages(leased)
    else:
        ledger.open_stage(leased, _store(plan, leased, ledger, most_items))


def _store(plan: StagePlan, leased: LeasedStage, ledger: StageLedger, most_items: int) -> int:
    """Store the plan chunk by chunk and return its number of items."""
    items, stored, pace = iter(plan.items), 0, Pace()
    while chunk := list(islice(items, pace.size)):
        for ordinal, item in enumerate(chunk, start=stored):
            if item.ordinal != ordinal:
                raise InternalError(f"item {item.item_key!r} has the ordinal {item.ordinal}, not {ordinal}")
        stored += len(chunk)
        if leased.first + stored > most_items:
            raise QuotaExceeded(f"with stage {leased.stage} the run would have more than {most_items} items")
        pace.let_others_in()
        pace.note(ledger.store_planned(leased, chunk))
    return stored
