"""Many who follow: one look for all, nobody held by another one, nothing lost when the database is busy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from counterpose_core.contract.runs import RunEvent
from counterpose_core.errors import BackendUnavailable
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.runs.status import Events
from counterpose_gateway.progress import following
from counterpose_gateway.progress.following import (
    FollowedRuns,
    Told,
    event_response,
    event_stream,
    first_event_id,
    wait_for_end,
)
from counterpose_gateway.progress.status import RunStatus
from fakes.ledgers import create_run, done, finish_all, lease

LONG = 100.0


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(following, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def followed(ledger: Ledger) -> FollowedRuns:
    return FollowedRuns(ledger.events)


async def ids(followed: FollowedRuns, run: str, after: int = 0) -> list[int]:
    """The numbers of all events until the end of a run."""
    return [event.id async for events in followed.events(run, after) for event in events]


def numbers(ledger: Ledger, run: str, after: int = 0) -> list[int]:
    return [event.id for event in ledger.events.page(run, after=after)]


async def started(followed: FollowedRuns, listeners: int) -> None:
    """Wait until so many listen."""
    async with asyncio.timeout(LONG):
        # Nobody outside a test wants to know.
        while sum(run.listeners for run in followed._runs.values()) < listeners:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def counting(events: Events, monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """Note every call of one of the methods."""
    calls: list[Any] = []
    method: Callable[..., Any] = getattr(events, name)

    def counted(*given: Any, **named: Any) -> Any:
        calls.append((given, named))
        return method(*given, **named)

    monkeypatch.setattr(events, name, counted)
    return calls


async def test_two_hundred_listeners_and_waits_of_two_runs_cost_one_look(
    ledger: Ledger, followed: FollowedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [create_run(ledger, sources=1), create_run(ledger, sources=1)]
    firsts = [await first_event_id(followed, run, None) for run in runs]
    status = RunStatus(ledger)
    looks = counting(ledger.events, monkeypatch, "new")
    reads = counting(ledger.events, monkeypatch, "page")
    listening = [
        asyncio.create_task(ids(followed, run, after))
        for run, after in zip(runs, firsts, strict=True)
        for _ in range(80)
    ]
    waiting = [
        asyncio.create_task(wait_for_end(followed, status, run, LONG)) for run in runs for _ in range(20)
    ]
    await started(followed, 200)
    before, since = len(looks), time.monotonic()
    async with asyncio.timeout(LONG):
        while len(looks) == before:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert len(looks) - before <= (time.monotonic() - since) / following.LOOK_SECONDS + 1
    finish_all(ledger)
    for number, run in enumerate(runs):
        expected = numbers(ledger, run)
        assert await asyncio.gather(*listening[80 * number : 80 * number + 80]) == [expected] * 80
    assert {run.state for run in await asyncio.gather(*waiting)} == {"completed"}
    assert reads == [((run,), {"after": 0}) for run in runs]
    assert all(set(given[0]) <= set(runs) for given, _ in looks)


async def test_a_listener_that_takes_nothing_holds_no_other(ledger: Ledger, followed: FollowedRuns) -> None:
    run = create_run(ledger, sources=1)
    slow = followed.events(run, 0)
    assert len(await anext(slow)) == 1
    quick = asyncio.create_task(ids(followed, run))
    finish_all(ledger)
    async with asyncio.timeout(LONG):
        assert await quick == numbers(ledger, run)
    rest = [event.id async for events in slow for event in events]
    assert rest == numbers(ledger, run)[1:]


async def test_a_listener_whose_connection_takes_nothing_is_left(
    ledger: Ledger, followed: FollowedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "STALLED_SECONDS", 0.05)
    run = create_run(ledger, sources=1)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(LONG):
        await event_response(followed, run, after=0)({"type": "http", "method": "GET"}, receive, send)
    assert followed._runs == {}


async def test_a_listener_who_fell_behind_the_kept_events_loses_none(
    ledger: Ledger, followed: FollowedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "KEPT_EVENTS", 2)
    run = create_run(ledger, sources=3)
    slow = followed.events(run, 0)
    got = [event.id for event in await anext(slow)]
    quick = asyncio.create_task(ids(followed, run))
    finish_all(ledger)
    assert await quick == numbers(ledger, run)
    assert len(followed._runs[run]._events) == 2
    got += [event.id async for events in slow for event in events]
    assert got == numbers(ledger, run)


async def test_a_database_that_does_not_answer_for_a_while_costs_no_event(
    ledger: Ledger, followed: FollowedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(ledger, sources=1)
    look = ledger.events.new
    failures = 3

    def busy(after: Mapping[str, int]) -> dict[str, list[RunEvent]]:
        nonlocal failures
        if failures:
            failures -= 1
            raise BackendUnavailable("the ledger does not answer: database is locked")
        return look(after)

    monkeypatch.setattr(ledger.events, "new", busy)
    listening = asyncio.create_task(ids(followed, run))
    waiting = asyncio.create_task(wait_for_end(followed, RunStatus(ledger), run, LONG))
    await started(followed, 2)
    finish_all(ledger)
    async with asyncio.timeout(LONG):
        assert await listening == numbers(ledger, run)
        assert (await waiting).state == "completed"
    assert failures == 0


async def test_a_listener_who_comes_after_a_resume_is_not_told_the_old_end(
    ledger: Ledger, followed: FollowedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(ledger, sources=1)
    async with followed.following(run) as seen:
        ledger.runs.cancel(run)
        async with asyncio.timeout(LONG):
            while not seen.is_still:
                await seen.change(0.01)
        last = ledger.events.last(run).id
        monkeypatch.setattr(following, "LOOK_SECONDS", 0.2)
        await asyncio.sleep(0.03)
        ledger.runs.resume(run)
        listening = asyncio.create_task(ids(followed, run, last))
        await started(followed, 2)
        finish_all(ledger)
        assert await listening == numbers(ledger, run, last) != []


async def test_a_number_that_this_process_has_not_seen_yet_is_not_repeated(
    ledger: Ledger, followed: FollowedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOOK_SECONDS", LONG)
    run = create_run(ledger, sources=1)
    async with followed.following(run):
        item = lease(ledger).items[0]
        ledger.items.finish(item.id, item.fence, done())
        newest = ledger.events.last(run).id
        assert await first_event_id(followed, run, newest) == newest
        assert await first_event_id(followed, run, newest + 5) == newest


async def test_streams_of_a_run_that_is_deleted_end(ledger: Ledger, followed: FollowedRuns) -> None:
    run = create_run(ledger, sources=1)
    stream = followed.events(run, ledger.events.last(run).id)
    listening = asyncio.create_task(anext(stream, None))
    await started(followed, 1)
    ledger.runs.cancel(run)
    ledger.runs.delete(run)
    async with asyncio.timeout(LONG):
        assert await listening is None


async def test_nothing_is_looked_at_when_the_last_listener_has_gone(
    ledger: Ledger, followed: FollowedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(ledger)
    streams = [event_stream(followed, run, after=0) for _ in range(2)]
    for stream in streams:
        await anext(stream)
    await streams[0].aclose()
    assert list(followed._runs) == [run]
    waiting = asyncio.create_task(wait_for_end(followed, RunStatus(ledger), run, LONG))
    await started(followed, 2)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await streams[1].aclose()
    assert followed._runs == {}
    assert followed._looking is not None
    await followed._looking
    looks = counting(ledger.events, monkeypatch, "new")
    await asyncio.sleep(0.1)
    assert looks == []


async def test_a_look_takes_no_more_than_a_page_of_a_run_and_goes_on_from_there(
    ledger: Ledger,
) -> None:
    run = create_run(ledger, sources=2)
    other = create_run(ledger, sources=0)
    finish_all(ledger)
    found = ledger.events.new({run: 0, other: 10**9, "gone": 0}, limit=3)
    assert [event.id for event in found[run]] == numbers(ledger, run)[:3]
    assert found[other] == []
    assert set(found) == {run, other}


def test_events_are_written_as_the_standard_says(tmp_path: Path) -> None:
    event = RunEvent(
        id=7, run_id="r", state="queued", message="a\nb",
        request_counts={"total": 0, "pending": 0, "done": 0, "filtered": 0, "failed": 0, "cancelled": 0},
    )  # fmt: skip
    written = following.told(event)
    assert isinstance(written, Told)
    id_line, kind, data, *rest = written.sent.decode().split("\r\n")
    assert (id_line, kind, rest) == ("id: 7", "event: progress", ["", ""])
    assert RunEvent.model_validate_json(data.removeprefix("data: ")) == event
