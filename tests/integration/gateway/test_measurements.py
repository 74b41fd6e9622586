"""What an operator watches: outcomes by kind, lost leases, open items, calls, readings of workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from counterpose_core.errors import BackendUnavailable
from counterpose_gateway.ledger import Ledger, measurements
from counterpose_gateway.records.items import MAX_ATTEMPTS
from counterpose_gateway.records.measurements import Attempt, WorkerReading
from counterpose_gateway.records.outcomes import Failed, Filtered
from counterpose_gateway.services.calls import CallCounts
from counterpose_gateway.worker.process_readings import ProcessReadings
from fakes.ledger_audit import violated_totals
from fakes.ledgers import Clock, create_run, done, lease, new_ledger
from fakes.processes import poll_until


def attempts(ledger: Ledger) -> Mapping[str, int]:
    """Attempts at edits by what they came to."""
    return {each.outcome: number for each, number in ledger.measurements.read().attempts.items()}


def test_each_attempt_counts_as_what_it_came_to(ledger: Ledger, clock: Clock) -> None:
    create_run(ledger, sources=1, per_source=4)
    first, second, third, fourth = lease(ledger).items
    ledger.items.finish(first.id, first.fence, done())
    ledger.items.finish(second.id, second.fence, Filtered(reason="no-edit"))
    ledger.items.finish(third.id, third.fence, Failed(code="image-undecodable", detail="broken"))
    ledger.items.finish(
        fourth.id, fourth.fence, Failed(code="backend-unavailable", detail="busy", retryable=True)
    )
    clock.now += 10
    found = ledger.measurements.read()
    assert attempts(ledger) == {"done": 1, "filtered": 1, "failed": 1, "retried": 1}
    assert set(found.attempts) >= {Attempt("edit", "done")}
    assert (found.open_items, found.active_runs, found.oldest_seconds) == (1, 1, 10.0)


def test_a_lease_that_runs_out_is_a_loss_each_time_and_the_last_a_failure(
    ledger: Ledger, clock: Clock
) -> None:
    create_run(ledger, sources=1, per_source=1)
    lease(ledger)
    for lost in range(1, MAX_ATTEMPTS):
        clock.now += 31
        lease(ledger)
        assert attempts(ledger) == {"lease-lost": lost}
    clock.now += 31
    assert ledger.items.lease("worker", seconds=30) is None
    assert attempts(ledger) == {"lease-lost": MAX_ATTEMPTS, "failed": 1}
    assert ledger.measurements.read().oldest_seconds == 0.0


def test_open_items_follow_cancelling_and_resuming(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=2, per_source=3)
    ledger.runs.cancel(run_id)
    assert ledger.measurements.read().open_items == 0
    ledger.runs.resume(run_id)
    assert ledger.measurements.read().open_items == 6
    assert violated_totals(ledger) == []


def test_counts_of_processes_add_up_and_the_last_reading_of_a_worker_stands(
    ledger: Ledger, clock: Clock
) -> None:
    ledger.measurements.add_counts({"calls editor ok": 2.0, "seconds editor": 0.5})
    ledger.measurements.add_counts({"calls editor ok": 1.0})
    ledger.measurements.note_worker(WorkerReading(worker="one", groups=4, busy=1))
    ledger.measurements.note_worker(WorkerReading(worker="one", groups=4, busy=2))
    found = ledger.measurements.read()
    assert found.counts == {"calls editor ok": 3.0, "seconds editor": 0.5}
    assert [each.busy for each in found.workers] == [2]
    clock.now += 46
    ledger.measurements.note_worker(WorkerReading(worker="two"))
    assert [each.worker for each in ledger.measurements.read().workers] == ["two"]


async def test_what_the_ledger_does_not_take_is_told_later(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = CallCounts(Clock())
    readings = ProcessReadings(ledger, counts, lambda: WorkerReading(worker="one"))
    with counts.call("editor"):
        await readings.tell()
        assert ledger.measurements.read().workers[0].calls == {"editor": 1}

    def busy(*_: object) -> None:
        raise BackendUnavailable("locked")

    with monkeypatch.context() as patched:
        patched.setattr(ledger.measurements, "add_counts", busy)
        await readings.tell()
    assert ledger.measurements.read().counts == {}
    keeping = asyncio.create_task(readings.keep())
    await poll_until(lambda: "calls editor ok" in ledger.measurements.read().counts)
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping
    assert ledger.measurements.read().counts["calls editor ok"] == 1.0
    assert ledger.measurements.read().workers == []


def test_the_oldest_run_is_found_by_its_index(tmp_path: Path) -> None:
    # A scrape that read every run took 30 ms with 10,000 of them.
    opened = new_ledger(tmp_path)
    with opened._session.database.reading() as connection:
        query = str(measurements._OLDEST.compile(compile_kwargs={"literal_binds": True}))
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}").all()
    opened.close()
    assert ["runs_under_way" in str(step[3]) for step in plan] == [True]
