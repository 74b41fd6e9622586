"""What the ledger keeps equals what it would count, whatever happened to its runs."""

from __future__ import annotations

import contextlib
import random

import pytest

from counterpose_core.contract.runs import ItemResult
from counterpose_core.errors import CounterposeError, LeaseLost
from counterpose_core.types import Cost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.items import LeasedGroup
from counterpose_gateway.records.outcomes import Done, Failed, Filtered, Outcome
from fakes.ledger_audit import violated, violated_totals
from fakes.ledgers import IMAGE, Clock, create_run


def outcome(chance: random.Random) -> Outcome:
    """An outcome of any kind, with a cost of its own if it has a result."""
    cost = Cost(unet_evaluations=chance.randrange(9), flops=2**62, seconds=chance.random())
    result = ItemResult(image=IMAGE, caption="a sled", cost=cost)
    outcomes: list[Outcome] = [
        Done(result=result),
        Filtered(reason="gate-direction", result=result),
        Filtered(reason="no-edit"),
        Failed(code="image-undecodable", detail="broken"),
        Failed(code="backend-unavailable", detail="busy", retryable=True),
    ]
    return chance.choice(outcomes)


class Life:
    """A ledger to which random things happen."""

    def __init__(self, ledger: Ledger, clock: Clock, seed: int) -> None:
        self.ledger, self.clock, self.chance = ledger, clock, random.Random(seed)
        self.held: list[LeasedGroup] = []
        self.runs: list[str] = []

    def happen(self) -> None:
        """Do one thing; those that the ledger refuses, such as outcomes of lost leases, change nothing."""
        event = self.chance.choices(
            (self.create, self.lease, self.finish, self.release, self.renew, self.wait, self.turn),
            weights=(2, 8, 12, 1, 1, 3, 2),
        )[0]
        with contextlib.suppress(CounterposeError):
            event()

    def create(self) -> None:
        self.runs.append(create_run(self.ledger, sources=self.chance.randrange(3), per_source=2))

    def lease(self) -> None:
        group = self.ledger.items.lease("worker", seconds=30)
        self.held += [] if group is None else [group]

    def finish(self) -> None:
        item = self.chance.choice(self._group().items)
        self.ledger.items.finish(item.id, item.fence, outcome(self.chance))

    def release(self) -> None:
        self.ledger.items.release(self._group())

    def renew(self) -> None:
        self.ledger.items.renew(self._group(), 30)

    def wait(self) -> None:
        self.clock.now += self.chance.choice((1, 10, 31))

    def turn(self) -> None:
        run_id = self.chance.choice(self.runs or ["none"])
        turned = self.chance.choice(
            (self.ledger.runs.cancel, self.ledger.runs.resume, self.ledger.runs.delete)
        )
        turned(run_id)
        if turned == self.ledger.runs.delete:
            self.runs.remove(run_id)

    def _group(self) -> LeasedGroup:
        if not self.held:
            raise LeaseLost("nothing is held")
        return self.chance.choice(self.held)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_kept_equals_what_is_counted_after_random_transitions(
    ledger: Ledger, clock: Clock, seed: int
) -> None:
    life = Life(ledger, clock, seed)
    for step in range(180):
        life.happen()
        if step % 12 == 0:
            assert violated_totals(ledger) == []
            assert [said for run_id in life.runs for said in violated(ledger, run_id)] == []
    assert ledger.measurements.active_runs() == sum(
        run.ended_at is None for run in ledger.runs.page(limit=500).runs
    )
    assert ledger.measurements.read().cost.unet_evaluations > 0


@pytest.mark.parametrize("column", ["active_runs", "cost"])
def test_the_audit_names_a_total_that_is_wrong(ledger: Ledger, column: str) -> None:
    create_run(ledger)
    wrong = {"active_runs": "5", "cost": "'{\"vae_passes\": 2}'"}[column]
    with ledger._session.database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE tallies SET {column} = {wrong} WHERE shard = 3")
    assert len(violated_totals(ledger)) == 1
