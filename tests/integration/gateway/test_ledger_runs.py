"""Runs in the ledger: durable at once, always counted, cancelled, resumed and paginated."""

from __future__ import annotations

from operator import attrgetter

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.runs import Item
from counterpose_core.errors import (
    IdempotencyConflict,
    IdempotencyInFlight,
    InvalidRequest,
    LeaseLost,
    NotFound,
    RunNotCancellable,
    RunNotResumable,
)
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database import cursors
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.idempotency import StoredAnswer
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.outcomes import Failed
from fakes.ledger_audit import violated
from fakes.ledgers import Clock, config, create_run, done, finish_all, lease, planned_items


def test_a_run_is_created_with_all_its_items_or_not_at_all(ledger: Ledger) -> None:
    items = planned_items(2, 2)
    twice = [*items, items[0]]
    with pytest.raises(IntegrityError):
        ledger.runs.create(
            kind="stress-test", dataset="demo", config=config(), items=twice, fingerprint="f" * 64
        )
    assert ledger.runs.page().runs == []


def test_a_created_run_is_returned_as_it_is_stored(ledger: Ledger) -> None:
    odd = {"of nothing": "a\0b", "half": "\ud800", "letters": "é", "small": 1e-7}
    made = ledger.runs.create(
        kind="stress-test", dataset="demo\0", config={**config(), "notes": odd}, items=planned_items(1, 2),
        fingerprint="f" * 64, idempotency_key="once",
    )  # fmt: skip
    assert made == ledger.runs.get(made.id)
    assert made.request_counts.pending == 2
    again = ledger.runs.create(
        kind="stress-test", dataset="demo", config={}, items=[], fingerprint="f" * 64, idempotency_key="once",
    )  # fmt: skip
    assert again == made


def test_a_run_without_items_ends_at_once(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=0)
    assert ledger.runs.get(run_id).state == "completed"
    assert violated(ledger, run_id) == []


@pytest.mark.fault("F17")
def test_an_idempotency_key_makes_one_run_forever(ledger: Ledger, clock: Clock) -> None:
    run_id = create_run(ledger, key="once")
    clock.now += 10 * 365 * 24 * 3600
    assert create_run(ledger, key="once") == run_id
    assert ledger.runs.for_key("once", "f" * 64) == run_id
    assert ledger.runs.for_key("never", "f" * 64) is None
    assert len(ledger.runs.page().runs) == 1


@pytest.mark.fault("F16")
def test_an_idempotency_key_with_another_body_conflicts(ledger: Ledger) -> None:
    run_id = create_run(ledger, key="once")
    with pytest.raises(IdempotencyConflict, match="once"):
        ledger.runs.for_key("once", "0" * 64)
    with pytest.raises(IdempotencyConflict, match="once"):
        ledger.runs.create(
            kind="stress-test", dataset="demo", config=config(), items=[], fingerprint="0" * 64,
            idempotency_key="once",
        )  # fmt: skip
    assert ledger.runs.get(run_id).request_counts.total == 9


@pytest.mark.fault("F19")
def test_cancelling_keeps_finished_items_and_voids_every_lease(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=2, per_source=2)
    first, second = lease(ledger).items
    ledger.items.finish(first.id, first.fence, done())
    run = ledger.runs.cancel(run_id)
    assert run.state == "cancelled"
    assert (run.request_counts.done, run.request_counts.cancelled) == (1, 3)
    assert ledger.runs.cancelled(run_id)
    with pytest.raises(LeaseLost):
        ledger.items.finish(second.id, second.fence, done())
    with pytest.raises(RunNotCancellable, match="already cancelled"):
        ledger.runs.cancel(run_id)
    assert violated(ledger, run_id) == []


def test_resuming_reopens_failed_and_cancelled_items(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=2, per_source=2)
    first, second = lease(ledger).items
    ledger.items.finish(first.id, first.fence, done())
    ledger.items.finish(second.id, second.fence, Failed(code="image-undecodable", detail="broken"))
    ledger.runs.cancel(run_id)
    run = ledger.runs.resume(run_id)
    assert (run.state, run.ended_at, run.problem) == ("queued", None, None)
    assert (run.request_counts.pending, run.request_counts.done) == (3, 1)
    # An item that is open again tells of no failure: cancelled now, it would seem to have failed.
    assert {item.code for item in ledger.items.page(run_id, Item).items} == {None}
    finish_all(ledger)
    run = ledger.runs.get(run_id)
    assert (run.state, run.request_counts.done) == ("completed", 4)
    assert [item.attempts for item in ledger.items.page(run_id, Item).items] == [1, 1, 1, 1]
    assert violated(ledger, run_id) == []


def test_a_worker_from_before_a_resume_records_nothing(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=1)
    old = lease(ledger).items[0]
    ledger.runs.cancel(run_id)
    ledger.runs.resume(run_id)
    with pytest.raises(LeaseLost):
        ledger.items.finish(old.id, old.fence, done())


@pytest.mark.fault("B58")
def test_only_ended_runs_with_unfinished_items_can_be_resumed(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    with pytest.raises(RunNotResumable, match="queued"):
        ledger.runs.resume(run_id)
    finish_all(ledger)
    with pytest.raises(RunNotResumable, match="completed"):
        ledger.runs.resume(run_id)


@pytest.mark.parametrize(
    "verb", ["runs.get", "runs.cancel", "runs.resume", "events.last", "items.page", "runs.cancelled"]
)
def test_an_error_names_the_unknown_run(ledger: Ledger, verb: str) -> None:
    with pytest.raises(NotFound, match="'nobody'"):
        attrgetter(verb)(ledger)("nobody", *([Item] if verb == "items.page" else []))


def test_run_pages_list_every_run_once_newest_first(ledger: Ledger, clock: Clock) -> None:
    created = []
    for number in range(7):
        clock.now += number % 2
        created.append(create_run(ledger, sources=1, per_source=1))
    seen: list[str] = []
    after: str | None = None
    while True:
        page = ledger.runs.page(after=after, limit=2)
        seen += [run.id for run in page.runs]
        clock.now += 1
        create_run(ledger, sources=1, per_source=1)
        after = page.after
        if after is None:
            break
    assert sorted(seen) == sorted(created)
    times = [ledger.runs.get(run_id).created_at for run_id in seen]
    assert times == sorted(times, reverse=True)


def test_item_pages_neither_repeat_nor_skip_during_a_run(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=4, per_source=3)
    seen: list[int] = []
    after: str | None = None
    while True:
        page = ledger.items.page(run_id, Item, after=after, limit=5)
        seen += [item.ordinal for item in page.items]
        group = ledger.items.lease("worker", seconds=30)
        for item in group.items if group else ():
            ledger.items.finish(item.id, item.fence, done())
        after = page.after
        if after is None:
            break
    assert seen == list(range(12))
    assert [item.ordinal for item in ledger.items.all(run_id, from_ordinal=7, chunk=2)] == [7, 8, 9, 10, 11]


@pytest.mark.fault("B53")
@pytest.mark.parametrize(
    "cursor", ["", "!!!", "AAAA", "x" * 400, cursors.write("elsewhere", 3), cursors.write(1)]
)
def test_a_cursor_from_another_listing_is_refused(ledger: Ledger, cursor: str) -> None:
    run_id = create_run(ledger)
    with pytest.raises(InvalidRequest, match="cursor"):
        ledger.items.page(run_id, Item, after=cursor)
    with pytest.raises(InvalidRequest, match="cursor"):
        ledger.runs.page(after=cursor if cursor != cursors.write("elsewhere", 3) else "?")


def test_every_change_leaves_an_event_with_counts_that_add_up(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=2)
    finish_all(ledger)
    events = ledger.events.page(run_id, after=0)
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert [event.state for event in events] == ["queued", "in_progress", "in_progress", "completed"]
    assert [event.request_counts.pending for event in events] == [2, 2, 1, 0]
    assert ledger.events.page(run_id, after=events[1].id) == events[2:]
    assert ledger.events.last(run_id) == events[-1]


def test_event_numbers_are_never_reused(ledger: Ledger) -> None:
    first = create_run(ledger)
    second = create_run(ledger)
    assert ledger.events.last(second).id > ledger.events.last(first).id


def test_the_audit_finds_wrong_counters(ledger: Ledger, url: str) -> None:
    run_id = create_run(ledger, sources=1, per_source=2)
    database = Database(url)
    with database.writing() as connection:
        connection.execute(update(schema.runs).values(pending=1, done=1))
    with database.writing() as connection:
        connection.execute(update(schema.items).where(schema.items.c.ordinal == 0).values(state="done"))
    database.close()
    assert violated(ledger, run_id) == ["1 done items have no result"]
    finish_all(ledger)
    assert len(violated(ledger, run_id)) == 1


def test_the_audit_finds_a_run_that_ended_too_early(ledger: Ledger, url: str) -> None:
    run_id = create_run(ledger, sources=1, per_source=2)
    database = Database(url)
    with database.writing() as connection:
        connection.execute(update(schema.runs).values(state="completed", pending=0, done=2))
    database.close()
    found = violated(ledger, run_id)
    assert len(found) == 2
    assert "2 items open" in found[1]


def test_an_answer_is_kept_under_its_key(ledger: Ledger) -> None:
    assert ledger.idempotency.claim("datasets", "key", "f") is None
    with pytest.raises(IdempotencyInFlight, match="key"):
        ledger.idempotency.claim("datasets", "key", "f")
    with pytest.raises(IdempotencyConflict, match="key"):
        ledger.idempotency.claim("datasets", "key", "g")
    ledger.idempotency.answer("datasets", "key", StoredAnswer(201, "{}"))
    assert ledger.idempotency.claim("datasets", "key", "f") == StoredAnswer(201, "{}")
    assert ledger.idempotency.claim("elsewhere", "key", "f") is None


def test_the_claim_of_a_failed_or_dead_call_is_released(ledger: Ledger, clock: Clock) -> None:
    ledger.idempotency.claim("datasets", "key", "f")
    ledger.idempotency.forget("datasets", "key")
    assert ledger.idempotency.claim("datasets", "key", "f") is None
    clock.now += 61
    assert ledger.idempotency.claim("datasets", "key", "f") is None


def test_keys_expire_after_a_week(ledger: Ledger, clock: Clock) -> None:
    ledger.idempotency.claim("datasets", "key", "f")
    ledger.idempotency.answer("datasets", "key", StoredAnswer(201, "{}"))
    clock.now += 7 * 24 * 3600 + 1
    assert ledger.idempotency.claim("datasets", "key", "g") is None
