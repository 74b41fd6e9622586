"""Polls of a run: one look at its row, never older than the last commit, and no work for an unchanged run."""

from __future__ import annotations

import gc
import sqlite3
import tracemalloc

import pytest

from counterpose_core.contract.runs import Run
from counterpose_core.errors import LedgerDamaged, NotFound
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.runs.status import Glance
from counterpose_gateway.progress.status import RunStatus
from counterpose_gateway.records.outcomes import Failed
from fakes.ledgers import Clock, create_run, done, finish_all, lease


@pytest.fixture
def status(ledger: Ledger) -> RunStatus:
    return RunStatus(ledger)


async def as_ledger_says(status: RunStatus, ledger: Ledger, run: str) -> Run:
    """Read a run twice, through the kept text too, and compare both with the whole row."""
    whole = ledger.runs.get(run)
    for _ in range(2):
        read = await status.read(run)
        assert read.content == whole.model_dump_json().encode()
        assert (read.kind, read.state) == (whole.kind, whole.state)
    return whole


async def test_a_poll_says_what_the_whole_row_says_after_every_change(
    ledger: Ledger, status: RunStatus, clock: Clock
) -> None:
    run = create_run(ledger, sources=1, per_source=2)
    await as_ledger_says(status, ledger, run)
    first, second = lease(ledger).items
    assert (await as_ledger_says(status, ledger, run)).started_at is not None
    ledger.items.finish(first.id, first.fence, Failed(code="bad-backend-output", detail='no "image" é'))
    assert (await as_ledger_says(status, ledger, run)).request_counts.failed == 1
    ledger.items.finish(second.id, second.fence, Failed(code="bad-backend-output", detail="none"))
    ended = await as_ledger_says(status, ledger, run)
    assert ended.problem is not None
    ledger.runs.rename(run, '"resolved_config":{} of "a name" é')
    assert (await as_ledger_says(status, ledger, run)).name is not None
    clock.now += 1
    ledger.runs.resume(run)
    assert (await as_ledger_says(status, ledger, run)).problem is None


async def test_a_poll_sees_the_commit_that_another_process_made_just_before(
    url: str, ledger: Ledger, status: RunStatus
) -> None:
    run = create_run(ledger, sources=1, per_source=20)
    other = Ledger(url)
    for number, item in enumerate(lease(other).items, start=1):
        other.items.finish(item.id, item.fence, done())
        polled = Run.model_validate_json((await status.read(run)).content)
        assert polled.request_counts.done == number
    other.close()


async def test_an_unchanged_run_is_answered_with_its_last_text_after_one_look(
    ledger: Ledger, status: RunStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(ledger)
    await status.read(run)
    kept = await status.read(run)
    looks: list[str] = []
    glance = ledger.status.glance

    def counted(run_id: str) -> Glance | None:
        looks.append(run_id)
        return glance(run_id)

    def refused(*_: object) -> Run:
        raise AssertionError("the whole row was read")

    monkeypatch.setattr(ledger.status, "glance", counted)
    monkeypatch.setattr(ledger.runs, "get", refused)
    assert await status.read(run) is kept
    finish_all(ledger)
    assert (await status.read(run)).state == "completed"
    assert looks == [run, run]


async def test_a_run_that_is_missing_deleted_or_of_another_kind_is_not_found(
    ledger: Ledger, status: RunStatus
) -> None:
    run = create_run(ledger, sources=0)
    await status.read(run)
    with pytest.raises(NotFound, match="is a stress-test, not a shift-benchmark"):
        await status.read(run, "shift-benchmark")
    ledger.runs.delete(run)
    with pytest.raises(NotFound, match="was deleted"):
        await status.read(run)
    with pytest.raises(NotFound, match="no run has the id"):
        await status.read("nobody")


async def test_a_file_that_cannot_be_looked_at_is_read_the_long_way(
    ledger: Ledger, status: RunStatus, database: str
) -> None:
    if database != "sqlite":
        pytest.skip("PostgreSQL has no short way")
    run = create_run(ledger)
    await status.read(run)
    assert isinstance(ledger._session.database._reader.connection, sqlite3.Connection)
    ledger._session.database._reader.connection.close()
    assert ledger.status.glance(run) is None
    finish_all(ledger)
    assert (await status.read(run)).state == "completed"


async def test_a_damaged_ledger_is_told_to_whoever_polls_an_unchanged_run(
    ledger: Ledger, status: RunStatus, database: str
) -> None:
    if database != "sqlite":
        pytest.skip("PostgreSQL looks after its own files")
    runs = [create_run(ledger) for _ in range(2)]
    for run in runs:
        assert (await status.read(run)).content == (await status.read(run)).content
    assert ledger._session.database._reader.connection is not None
    ledger._session.database._reader.connection.execute("PRAGMA query_only = OFF")
    ledger._session.database._reader.connection.execute(
        "UPDATE runs SET problem = 'no JSON' WHERE id = ?", (runs[0],)
    )
    for run in runs:
        with pytest.raises(LedgerDamaged):
            await status.read(run)


async def test_kept_texts_take_bounded_memory(ledger: Ledger) -> None:
    runs = [create_run(ledger) for _ in range(5)]
    await (whole := RunStatus(ledger)).read(runs[0])
    one = whole._texts._size
    status = RunStatus(ledger, kept_bytes=4 * one)
    for run in runs * 2:
        assert Run.model_validate_json((await status.read(run)).content) == ledger.runs.get(run)
    assert len(status._texts._texts) == 4
    assert 3 * one < status._texts._size <= 4 * one


async def test_kept_texts_take_the_memory_that_is_counted(ledger: Ledger) -> None:
    runs = [create_run(ledger) for _ in range(60)]
    tracemalloc.start()
    try:
        await (status := RunStatus(ledger)).read(runs[0])
        first, before = status._texts._size, tracemalloc.get_traced_memory()[0]
        for run in runs[1:]:
            for _ in range(2):
                await status.read(run)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert held == pytest.approx(status._texts._size - first, rel=0.35)


async def test_a_text_too_large_to_keep_is_still_answered(ledger: Ledger) -> None:
    run = create_run(ledger)
    status = RunStatus(ledger, kept_bytes=10)
    assert (await status.read(run)).state == "queued"
    finish_all(ledger)
    assert (await status.read(run)).state == "completed"
