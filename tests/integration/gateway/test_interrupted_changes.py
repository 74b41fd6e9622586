"""Large runs are resumed and deleted in chunks; a process that is killed between two loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from counterpose_core.contract.runs import Item
from counterpose_core.errors import BackendUnavailable, LeaseLost, NotFound, RunNotDeletable
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.runs import changes
from counterpose_gateway.ledger.runs import runs as runs_part
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records import pace
from counterpose_gateway.records.outcomes import Failed
from fakes.halting_changes import SMALL_CHUNK, Moment, Verb, change_and_halt
from fakes.ledger_audit import violated, violated_totals
from fakes.ledger_worker import acknowledged
from fakes.ledgers import create_run, done, finish_all, lease
from fakes.processes import Start, child_processes, look_until

SOURCES, PER_SOURCE = 5, 4
ITEMS = SOURCES * PER_SOURCE
AGAIN = ITEMS - PER_SOURCE
KEY = "a-key"
TABLES = (schema.runs, schema.items, schema.events)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "CHUNK", SMALL_CHUNK)
    monkeypatch.setattr(changes, "DELETED_AT_ONCE", SMALL_CHUNK)
    monkeypatch.setattr(changes, "RESUMED_AT_ONCE", 5)


@pytest.fixture
def start() -> Iterator[Start]:
    with child_processes() as start_one:
        yield start_one


@pytest.fixture
def run_id(ledger: Ledger) -> str:
    """An ended run: its first group is done, its second failed, and the others are cancelled."""
    created = create_run(ledger, sources=SOURCES, per_source=PER_SOURCE, key=KEY)
    for item in lease(ledger).items:
        ledger.items.finish(item.id, item.fence, done())
    for item in lease(ledger).items:
        ledger.items.finish(item.id, item.fence, Failed(code="image-undecodable", detail="broken"))
    ledger.runs.cancel(created)
    return created


def begin(ledger: Ledger, run_id: str, verb: str) -> None:
    """Begin to resume or to delete a run, as a process does that is killed after the first commit."""
    rest = {"resume": (changes, "resume_rest"), "delete": (changes, "delete_rest")}[verb]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*rest, lambda *_: None)
        getattr(ledger.runs, verb)(run_id)


def rows_left(ledger: Ledger, run_id: str) -> list[int]:
    with ledger._session.database.reading() as connection:
        return [
            connection.execute(
                select(func.count()).where((table.c.id if table is schema.runs else table.c.run_id) == run_id)
            ).scalar_one()
            for table in TABLES
        ]


def test_a_large_run_is_resumed_in_chunks(ledger: Ledger, run_id: str) -> None:
    before = ledger.events.last(run_id).id
    run = ledger.runs.resume(run_id)
    assert (run.state, run.ended_at, run.problem, run.request_counts.pending) == ("queued", None, None, AGAIN)
    events = ledger.events.page(run_id, after=before)
    counted = [event.request_counts.pending for event in events]
    assert counted == [0, *range(SMALL_CHUNK, AGAIN, SMALL_CHUNK), AGAIN]
    assert [event.state for event in events] == ["resuming"] * (len(events) - 1) + ["queued"]
    assert (violated(ledger, run_id), violated_totals(ledger)) == ([], [])
    finish_all(ledger)
    assert ledger.runs.get(run_id).state == "completed"
    assert {item.attempts for item in ledger.items.page(run_id, Item).items} == {1}


def test_nobody_works_on_a_run_that_is_being_resumed(ledger: Ledger, run_id: str) -> None:
    begin(ledger, run_id, "resume")
    assert (ledger.runs.get(run_id).state, violated(ledger, run_id)) == ("resuming", [])
    assert ledger.items.lease("worker", seconds=30.0) is None
    assert ledger.measurements.active_runs() == 1
    with pytest.raises(RunNotDeletable, match="resuming"):
        ledger.runs.delete(run_id)
    # The next call goes on.
    assert ledger.runs.resume(run_id).request_counts.pending == AGAIN


def test_a_run_that_is_cancelled_while_it_is_resumed_can_be_resumed_again(
    ledger: Ledger, run_id: str
) -> None:
    begin(ledger, run_id, "resume")
    stops = iter([False, False, True])
    ledger.runs.go_on(lambda: next(stops))
    assert ledger.runs.get(run_id).request_counts.pending == 2 * SMALL_CHUNK
    run = ledger.runs.cancel(run_id)
    assert (run.state, run.request_counts.pending, violated(ledger, run_id)) == ("cancelled", 0, [])
    assert ledger.runs.resume(run_id).request_counts.pending == AGAIN
    assert (violated(ledger, run_id), violated_totals(ledger)) == ([], [])


def test_items_that_were_cancelled_again_between_two_chunks_are_found(
    ledger: Ledger, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ledger, run_id, "resume")
    let_others_in, calls = pace.Pace.let_others_in, iter(range(100))

    def turn_back_once(self: pace.Pace) -> None:
        let_others_in(self)
        if next(calls) == 4:
            ledger.runs.cancel(run_id)
            begin(ledger, run_id, "resume")

    monkeypatch.setattr(pace.Pace, "let_others_in", turn_back_once)
    assert ledger.runs.resume(run_id).request_counts.pending == AGAIN
    assert violated(ledger, run_id) == []


def test_a_run_that_is_being_deleted_is_gone_for_everybody(ledger: Ledger, run_id: str) -> None:
    cost, following = ledger.measurements.read().cost, ledger.events.last(run_id).id
    child = ledger.runs.create(
        kind="stress-test", dataset="demo", config={}, items=[], fingerprint="c" * 64, parent=run_id
    ).id
    begin(ledger, run_id, "delete")
    assert rows_left(ledger, run_id)[0] == 1
    runs = ledger.runs
    calls: list[Callable[[str], object]] = [
        runs.get, ledger.events.last, runs.delete, runs.cancel, runs.resume, runs.cancelled, runs.functions,
        lambda gone: ledger.items.page(gone, Item), lambda gone: runs.rename(gone, "x"),
        lambda gone: ledger.items.get(gone, f"{gone}.0", Item),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(NotFound, match=f"run '{run_id}' was deleted"):
            call(run_id)
    assert ledger.status.glance(run_id) is None
    assert ledger.events.new({run_id: following - 1}) == {}
    assert list(ledger.items.recorded(run_id)) == []
    assert ledger.items.named(run_id, Item, [f"{run_id}.0"]) == []
    assert [run.id for run in ledger.runs.page().runs] == [child]
    assert ledger.runs.for_key(KEY, "f" * 64) is None
    assert (ledger.measurements.active_runs(), ledger.measurements.read().cost, violated_totals(ledger)) == (
        0,
        cost,
        [],
    )
    ledger.runs.delete(child)
    ledger.runs.go_on()
    assert rows_left(ledger, run_id) == [0, 0, 0]
    assert violated_totals(ledger) == []


def test_leases_of_a_run_that_is_being_deleted_are_void(ledger: Ledger) -> None:
    gone = create_run(ledger)
    group = lease(ledger)
    ledger.runs.cancel(gone)
    begin(ledger, gone, "delete")
    for late in (lambda: ledger.items.renew(group, 30.0), lambda: ledger.items.release(group)):
        with pytest.raises((NotFound, LeaseLost)):
            late()


@pytest.mark.parametrize("moment", ["between-chunks", "within-a-chunk"])
@pytest.mark.parametrize("verb", ["resume", "delete"])
def test_a_kill_between_two_chunks_loses_and_repeats_nothing(
    ledger: Ledger, url: str, tmp_path: Path, start: Start, run_id: str, verb: Verb, moment: Moment
) -> None:
    kept = create_run(ledger)
    log = tmp_path / "log"
    process = start(change_and_halt, url, run_id, verb, moment, 3, log)
    look_until(lambda: bool(acknowledged(log)))
    if moment == "between-chunks":
        # Nothing is locked meanwhile.
        ledger.runs.rename(kept, "another writer")
    process.kill()
    process.join()
    left = ITEMS - 2 * SMALL_CHUNK
    if verb == "resume":
        run = ledger.runs.get(run_id)
        assert (run.state, run.request_counts.pending) == ("resuming", 2 * SMALL_CHUNK)
        assert violated(ledger, run_id) == []
    else:
        assert rows_left(ledger, run_id)[:2] == [1, left]
    ledger.runs.go_on()
    if verb == "resume":
        run = ledger.runs.get(run_id)
        assert (run.state, run.request_counts.pending, violated(ledger, run_id)) == ("queued", AGAIN, [])
    else:
        assert rows_left(ledger, run_id) == [0, 0, 0]
    assert (ledger.runs.get(kept).request_counts.total, violated(ledger, kept), violated_totals(ledger)) == (
        9,
        [],
        [],
    )


def test_two_processes_that_go_on_with_one_deletion_leave_nothing(
    ledger: Ledger, url: str, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ledger, run_id, "delete")
    other, let_others_in, calls = Ledger(url), pace.Pace.let_others_in, iter(range(100))

    def let_the_other_do_it(self: pace.Pace) -> None:
        let_others_in(self)
        if next(calls) == 2:
            other.runs.go_on()

    monkeypatch.setattr(pace.Pace, "let_others_in", let_the_other_do_it)
    ledger.runs.go_on()
    assert rows_left(ledger, run_id) == [0, 0, 0]
    other.close()


def test_an_error_while_going_on_is_left_for_the_next_process(
    ledger: Ledger, run_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    begin(ledger, run_id, "resume")

    def lost(*_: object) -> None:
        raise BackendUnavailable("the ledger is locked")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(runs_part._RESTS, "resuming", lost)
        ledger.runs.go_on()
    assert "left for later" in caplog.text
    ledger.runs.go_on()
    assert ledger.runs.get(run_id).state == "queued"
