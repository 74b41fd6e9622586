"""Stages: the next items of a run are planned from the recorded results of the ones before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from counterpose_core.contract.runs import Run, RunItem
from counterpose_core.errors import InternalError, LeaseLost, QuotaExceeded
from counterpose_gateway.records.items import LeasedStage, PlannedItem
from counterpose_gateway.records.pace import Pace
from counterpose_gateway.records.recorded_items import RecordedItem

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

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

    def __init__(self, leased: LeasedStage, shape: type[RunItem[Any]], ledger: Ledger) -> None:
        self._leased = leased
        self._ledger = ledger
        self._models = self._while_ours(ledger.items.of(leased.run_id, shape))

    def __next__(self) -> RunItem[Any]:
        return next(self._models)

    def recorded(self) -> Iterator[RecordedItem]:
        """Yield the items as they are recorded."""
        return self._while_ours(self._ledger.items.recorded(self._leased.run_id))

    def _while_ours(self, items: Iterable[Each]) -> Iterator[Each]:
        leased = self._leased
        for number, item in enumerate(items):
            # Nothing else would stop a planner that lost its lease while it reads for minutes.
            if number % LOOK_AFTER == 0 and not self._ledger.stages.is_ours(leased):
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


def plan_stage(
    leased: LeasedStage, next_stage: NextStage, shape: type[RunItem[Any]], ledger: Ledger, *, most_items: int
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
    ledger.stages.clear(leased)
    plan = next_stage(ledger.runs.get(leased.run_id), StageResults(leased, shape, ledger))
    if plan is None:
        ledger.stages.end(leased)
    else:
        ledger.stages.open(leased, _store(plan, leased, ledger, most_items))


def _store(plan: StagePlan, leased: LeasedStage, ledger: Ledger, most_items: int) -> int:
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
        pace.note(ledger.stages.store(leased, chunk))
    return stored
