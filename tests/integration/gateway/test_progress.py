"""Following a run: each event once and in order, an end that is never missed, waits that time out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from counterpose_core.contract.runs import RunEvent
from counterpose_core.errors import NotFound
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.progress import following
from counterpose_gateway.progress.following import (
    FollowedRuns,
    event_response,
    event_stream,
    first_event_id,
    wait_for_end,
)
from counterpose_gateway.progress.status import RunStatus
from fakes.following import sent_fields
from fakes.ledgers import create_run, done, finish_all, lease


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.001)


@pytest.fixture
def followed(ledger: Ledger) -> FollowedRuns:
    return FollowedRuns(ledger.events)


@pytest.fixture
def status(ledger: Ledger) -> RunStatus:
    return RunStatus(ledger)


async def told(stream: AsyncIterator[bytes]) -> list[RunEvent]:
    pieces = [each async for sent in stream for each in sent_fields(sent)]
    return [RunEvent.model_validate_json(each["data"]) for each in pieces]


async def test_a_stream_from_the_start_sends_every_event_once_in_order(
    ledger: Ledger, followed: FollowedRuns
) -> None:
    run = create_run(ledger)
    finish_all(ledger)
    assert await told(event_stream(followed, run, after=0)) == ledger.events.page(run, after=0)


async def test_each_event_carries_its_number_and_its_name(ledger: Ledger, followed: FollowedRuns) -> None:
    run = create_run(ledger, sources=1)
    finish_all(ledger)
    events = [each async for sent in event_stream(followed, run, after=0) for each in sent_fields(sent)]
    assert [each["id"] for each in events] == [str(event.id) for event in ledger.events.page(run, after=0)]
    assert {each["event"] for each in events} == {"progress"}


@pytest.mark.fault("F18")
async def test_a_resumed_stream_repeats_and_skips_nothing(ledger: Ledger, followed: FollowedRuns) -> None:
    run = create_run(ledger, sources=2)
    finish_all(ledger)
    events = ledger.events.page(run, after=0)
    for seen in events:
        rest = await told(event_stream(followed, run, after=seen.id))
        assert rest == [event for event in events if event.id > seen.id]


async def test_events_of_other_runs_are_not_sent(ledger: Ledger, followed: FollowedRuns) -> None:
    mine, other = create_run(ledger, sources=1), create_run(ledger, sources=1)
    finish_all(ledger)
    assert {event.run_id for event in await told(event_stream(followed, mine, after=0))} == {mine}
    assert ledger.runs.get(other).state == "completed"


async def test_a_stream_ends_with_its_run(ledger: Ledger, followed: FollowedRuns) -> None:
    run = create_run(ledger, sources=1, per_source=2)
    stream = event_stream(followed, run, after=0)
    assert b"created" in await anext(stream)
    first, second = lease(ledger).items
    for item in (first, second):
        ledger.items.finish(item.id, item.fence, done())
    states = [event.state for event in await told(stream)]
    assert states == ["in_progress", "in_progress", "completed"]


async def test_a_resumed_run_can_be_followed_again(ledger: Ledger, followed: FollowedRuns) -> None:
    run = create_run(ledger, sources=1, per_source=1)
    ledger.runs.cancel(run)
    last = (await told(event_stream(followed, run, after=0)))[-1]
    assert last.state == "cancelled"
    ledger.runs.resume(run)
    finish_all(ledger)
    assert [event.state for event in await told(event_stream(followed, run, after=last.id))][
        -1
    ] == "completed"


async def test_a_new_client_gets_the_newest_event_first(ledger: Ledger, followed: FollowedRuns) -> None:
    run = create_run(ledger)
    newest = ledger.events.last(run).id
    assert await first_event_id(followed, run, None) == newest - 1
    assert await first_event_id(followed, run, 0) == 0
    assert await first_event_id(followed, run, newest + 100) == newest


async def test_an_unknown_run_is_refused_before_a_stream_starts(
    ledger: Ledger, followed: FollowedRuns
) -> None:
    with pytest.raises(NotFound, match="'nobody'"):
        await first_event_id(followed, "nobody", None)


async def test_a_heartbeat_comes_every_15_seconds(followed: FollowedRuns) -> None:
    assert event_response(followed, "a run", after=0).ping_interval == 15.0


async def test_waiting_for_an_ended_run_checks_once(
    ledger: Ledger, followed: FollowedRuns, status: RunStatus
) -> None:
    run = create_run(ledger, sources=0)
    assert (await wait_for_end(followed, status, run, 60.0)).state == "completed"


async def test_a_zero_wait_returns_the_current_state(
    ledger: Ledger, followed: FollowedRuns, status: RunStatus
) -> None:
    run = create_run(ledger)
    assert (await wait_for_end(followed, status, run, 0.0)).state == "queued"


async def test_a_waiting_client_sees_the_end_caused_by_another_process(
    ledger: Ledger, followed: FollowedRuns, status: RunStatus
) -> None:
    run = create_run(ledger)
    waiting = [asyncio.create_task(wait_for_end(followed, status, run, 30.0)) for _ in range(3)]
    ledger.runs.cancel(run)
    assert [found.state for found in await asyncio.gather(*waiting)] == ["cancelled"] * 3
