"""Runs with many open items are cancelled in chunks; a process that is killed meanwhile loses nothing."""

from __future__ import annotations

import pytest

from counterpose_core.errors import InternalError, LeaseLost, RunNotCancellable, RunNotResumable
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.runs import changes
from counterpose_gateway.ledger.tables import rows
from counterpose_gateway.records import pace
from fakes.large_runs import FourOfEach, create_large_run, large_planner, plan_rest
from fakes.ledger_audit import violated
from fakes.ledgers import create_run, done, lease

SOURCES, PER_SOURCE, CHUNK = 5, 4, 3
ITEMS = SOURCES * PER_SOURCE
LEFT = ITEMS - PER_SOURCE


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "CHUNK", CHUNK)
    monkeypatch.setattr(changes, "CANCELLED_AT_ONCE", 5)


@pytest.fixture
def run_id(ledger: Ledger) -> str:
    """A run whose first group is done."""
    created = create_run(ledger, sources=SOURCES, per_source=PER_SOURCE)
    for item in lease(ledger).items:
        ledger.items.finish(item.id, item.fence, done())
    return created


def interrupt(ledger: Ledger, run_id: str) -> None:
    """Begin to cancel, as a process does that is killed then."""
    with ledger._session.database.writing() as connection:  # the ledger's own transaction
        run = rows.locked_run(connection, run_id)
        changes.begin_cancelling(connection, run, now=1.0, message="cancelled")


def test_a_large_run_is_cancelled_in_chunks(ledger: Ledger, run_id: str) -> None:
    before = ledger.events.last(run_id).id
    run = ledger.runs.cancel(run_id)
    assert (run.state, run.request_counts.done, run.request_counts.cancelled) == (
        "cancelled",
        PER_SOURCE,
        LEFT,
    )
    assert run.problem is None
    assert violated(ledger, run_id) == []
    events = ledger.events.page(run_id, after=before)
    counted = [event.request_counts.cancelled for event in events]
    assert counted == [0, *range(CHUNK, LEFT, CHUNK), LEFT]
    assert [event.state for event in events] == ["cancelling"] * (len(events) - 1) + ["cancelled"]
    assert all(event.request_counts.total == ITEMS for event in events)
    assert ledger.measurements.active_runs() == 0


def test_an_interrupted_cancellation_voids_leases_and_is_gone_on_with(ledger: Ledger, run_id: str) -> None:
    group = lease(ledger)
    interrupt(ledger, run_id)
    assert ledger.runs.get(run_id).state == "cancelling"
    assert ledger.runs.cancelled(run_id)
    assert violated(ledger, run_id) == []
    with pytest.raises(LeaseLost):
        ledger.items.finish(group.items[0].id, group.items[0].fence, done())
    with pytest.raises(LeaseLost):
        ledger.items.renew(group, 30.0)
    assert ledger.items.lease("worker", seconds=30.0) is None
    with pytest.raises(RunNotResumable):
        ledger.runs.resume(run_id)
    ledger.runs.go_on()
    run = ledger.runs.get(run_id)
    assert (run.state, run.request_counts.cancelled, violated(ledger, run_id)) == ("cancelled", LEFT, [])
    assert ledger.runs.resume(run_id).request_counts.pending == LEFT


def test_a_second_cancel_goes_on_with_an_interrupted_one(ledger: Ledger, run_id: str) -> None:
    interrupt(ledger, run_id)
    assert ledger.runs.cancel(run_id).request_counts.cancelled == LEFT
    with pytest.raises(RunNotCancellable):
        ledger.runs.cancel(run_id)


async def test_a_large_plan_that_is_refused_fails_with_its_error(ledger: Ledger) -> None:
    run_id = create_large_run(ledger, sources=SOURCES)
    assert await plan_rest(large_planner(ledger, FourOfEach(InternalError("a defect"), before=15)))
    run = ledger.runs.get(run_id)
    assert run.problem is not None
    assert (run.state, run.problem.code, violated(ledger, run_id)) == ("failed", InternalError.code, [])
    assert "a defect" in run.problem.detail
    assert run.request_counts.cancelled == run.request_counts.total > 5
