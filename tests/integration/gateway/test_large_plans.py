"""Runs of many items: created in part, planned on in chunks, and resumed where a process was killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from counterpose_core.contract.runs import Item
from counterpose_core.errors import BackendUnavailable, CounterposeError, InternalError, QuotaExceeded
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records import pace
from counterpose_gateway.records.items import LeasedStage
from counterpose_gateway.records.pace import CHUNK
from counterpose_gateway.runs import submission
from counterpose_gateway.runs.large_plans import store_plan
from fakes.gateway import FakeGateway
from fakes.large_runs import (
    KIND,
    SMALL_CHUNK,
    FourOfEach,
    Moment,
    add_sources,
    create_large_run,
    four_of_each,
    large_planner,
    plan_and_halt,
    plan_rest,
)
from fakes.ledger_audit import violated
from fakes.ledger_worker import acknowledged
from fakes.ledgers import Clock, config, finish_all
from fakes.processes import Start, child_processes, look_until
from fakes.staged_runs import stored_keys

SOURCES = 5
ITEMS = 4 * SOURCES
MOMENTS: list[tuple[Moment, int]] = [
    ("within-a-chunk", 2), ("after-a-chunk", 0), ("within-the-last", 0), ("after-the-last", 0),
]  # fmt: skip


@pytest.fixture
def start() -> Iterator[Start]:
    with child_processes() as start_one:
        yield start_one


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "CHUNK", SMALL_CHUNK)
    monkeypatch.setattr(submission, "STORED_AT_CREATION", 2 * SMALL_CHUNK)


def expected(ledger: Ledger) -> list[tuple[int, str]]:
    return [(1, item.item_key) for item in four_of_each(ledger.datasets.sources("demo", most=SOURCES))]


def fresh_test(name: str) -> dict[str, Any]:
    return {"dataset": name, "classifiers": ["steady"], "seed": 3}


async def test_a_large_run_is_answered_early_and_planned_by_a_worker(
    gateway: FakeGateway, name: str, request: pytest.FixtureRequest
) -> None:
    await gateway.upload(name, 2)
    whole = (await gateway.http.post("/v1/stress-tests", json=fresh_test(name))).json()
    assert whole["state"] == "queued"
    request.getfixturevalue("small_chunks")
    answer = await gateway.http.post("/v1/stress-tests", json=fresh_test(name))
    run = answer.json()
    assert (answer.status_code, run["state"]) == (202, "validating")
    assert 2 * SMALL_CHUNK <= run["request_counts"]["total"] < whole["request_counts"]["total"]
    listed = (await gateway.http.get(f"/v1/runs/{run['id']}/items")).json()
    assert len(listed["items"]) == run["request_counts"]["total"]
    assert await plan_rest(gateway.planner())
    made = gateway.ledger.runs.get(run["id"])
    assert (made.state, made.request_counts.total) == ("queued", whole["request_counts"]["total"])
    assert _keys(gateway, run["id"]) == _keys(gateway, whole["id"])
    for each in (run["id"], whole["id"]):
        gateway.ledger.runs.cancel(each)


def _keys(gateway: FakeGateway, run_id: str) -> list[str]:
    return [f"{item.ordinal} {item.item_key}" for item in _leased(gateway.ledger, run_id)]


def _leased(ledger: Ledger, run_id: str) -> list[Any]:
    found: list[Any] = []
    while (group := ledger.items.lease("worker", seconds=30.0, run_id=run_id)) is not None:
        found += group.items
    return sorted(found, key=lambda item: item.ordinal)


@pytest.mark.usefixtures("small_chunks")
async def test_an_early_answer_is_repeated_for_its_key(gateway: FakeGateway, name: str) -> None:
    await gateway.upload(name, 2)
    headers = {"Idempotency-Key": f"key-{name}"}
    posts = (gateway.http.post("/v1/stress-tests", json=fresh_test(name), headers=headers) for _ in range(3))
    answers = [answer.json() for answer in await asyncio.gather(*posts)]
    assert len({answer["id"] for answer in answers}) == 1
    assert await plan_rest(gateway.planner())
    assert violated(gateway.ledger, answers[0]["id"]) == []
    gateway.ledger.runs.cancel(answers[0]["id"])


@pytest.mark.usefixtures("small_chunks")
async def test_the_rest_is_planned_from_the_sources_of_the_request(ledger: Ledger, url: str) -> None:
    run_id = create_large_run(ledger, sources=SOURCES)
    before = expected(ledger)
    add_sources(ledger, 3, first=SOURCES)
    assert await plan_rest(large_planner(ledger))
    assert stored_keys(url, run_id) == before
    assert ledger.runs.get(run_id).state == "queued"
    finish_all(ledger)
    assert (ledger.runs.get(run_id).state, violated(ledger, run_id)) == ("completed", [])


@pytest.mark.parametrize(("moment", "chunk"), MOMENTS)
def test_kills_while_a_run_is_planned_lose_and_repeat_nothing(
    url: str, tmp_path: Path, start: Start, moment: Moment, chunk: int
) -> None:
    ledger, log = Ledger(url), tmp_path / "log"
    run_id = create_large_run(ledger, sources=SOURCES)
    # Of one moment more kills than attempts: those of planners that got on are not counted.
    for kill in range(1, 5 if (moment, chunk) == ("after-a-chunk", 0) else 2):
        process = start(plan_and_halt, url, log, moment, chunk)
        look_until(partial(_has_halted, log, kill))
        assert violated(ledger, run_id) == []
        process.kill()
        process.join()
    planner = large_planner(ledger)
    look_until(lambda: asyncio.run(plan_rest(planner)) or ledger.runs.get(run_id).state == "queued")
    assert stored_keys(url, run_id) == expected(ledger)
    assert [item.id for item in ledger.items.all(run_id)] == [f"{run_id}.{place}" for place in range(ITEMS)]
    finish_all(ledger)
    assert (ledger.runs.get(run_id).state, violated(ledger, run_id)) == ("completed", [])
    ledger.close()


def _has_halted(log: Path, times: int) -> bool:
    return len(acknowledged(log)) == times


@pytest.mark.usefixtures("small_chunks")
async def test_a_cancelled_plan_is_gone_on_with_after_a_resume(ledger: Ledger, url: str) -> None:
    run_id = create_large_run(ledger, sources=SOURCES)
    assert ledger.items.lease("worker", seconds=30.0) is None
    cancelled = ledger.runs.cancel(run_id)
    assert (cancelled.state, cancelled.request_counts.cancelled) == ("cancelled", SMALL_CHUNK)
    assert not await plan_rest(large_planner(ledger))
    assert ledger.runs.resume(run_id).state == "validating"
    assert await plan_rest(large_planner(ledger))
    assert stored_keys(url, run_id) == expected(ledger)
    assert (ledger.runs.get(run_id).request_counts.pending, violated(ledger, run_id)) == (ITEMS, [])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("error", [QuotaExceeded("too many"), InternalError("a defect")])
async def test_a_refusal_while_a_run_is_planned_ends_it(ledger: Ledger, error: CounterposeError) -> None:
    run_id = create_large_run(ledger, sources=SOURCES)
    assert await plan_rest(large_planner(ledger, FourOfEach(error, before=10)))
    run = ledger.runs.get(run_id)
    assert run.problem is not None
    assert (run.state, run.problem.code, violated(ledger, run_id)) == ("failed", error.code, [])
    assert run.request_counts.cancelled == run.request_counts.total > SMALL_CHUNK
    assert ledger.events.page(run_id, after=0)[-1].state == "failed"
    ledger.runs.resume(run_id)
    assert await plan_rest(large_planner(ledger))
    assert (ledger.runs.get(run_id).request_counts.pending, violated(ledger, run_id)) == (ITEMS, [])


@pytest.mark.usefixtures("small_chunks")
async def test_planning_is_tried_again_after_an_outage(ledger: Ledger, clock: Clock) -> None:
    run_id = create_large_run(ledger, sources=SOURCES)
    assert await plan_rest(large_planner(ledger, FourOfEach(BackendUnavailable("away"), before=10)))
    assert ledger.runs.get(run_id).state == "validating"
    assert not await plan_rest(large_planner(ledger))
    clock.now += 60
    assert await plan_rest(large_planner(ledger))
    assert (ledger.runs.get(run_id).state, violated(ledger, run_id)) == ("queued", [])


def test_a_zombie_stores_nothing_more(ledger: Ledger) -> None:
    run_id = create_large_run(ledger, sources=SOURCES)
    leased = ledger.stages.lease((), seconds=30.0, first_of=[KIND])
    assert leased is not None
    items = iter(four_of_each(ledger.datasets.sources("demo"))[leased.first :])
    following, _ = ledger.stages.store_first(leased, [next(items)], last=False)
    with pytest.raises(CounterposeError, match="no longer valid"):
        ledger.stages.store_first(leased, [next(items)], last=False)
    ledger.stages.release(following)
    with pytest.raises(CounterposeError, match="no longer valid"):
        ledger.stages.store_first(following, [next(items)], last=False)
    assert violated(ledger, run_id) == []


def test_a_plan_that_repeats_a_key_is_refused(ledger: Ledger) -> None:
    run_id = create_large_run(ledger, sources=SOURCES)
    leased = ledger.stages.lease((), seconds=30.0, first_of=[KIND])
    assert leased is not None
    known = four_of_each(ledger.datasets.sources("demo"))[0]
    with pytest.raises(InternalError, match="repeats an item key"):
        ledger.stages.store_first(leased, [known, known], last=True)
    assert ledger.runs.get(run_id).request_counts.total == SMALL_CHUNK


def test_no_transaction_stores_more_than_a_chunk_and_the_plan_is_read_as_it_is_stored(ledger: Ledger) -> None:
    sources, written, read = 4 * CHUNK // 4, list[int](), list[int]()
    run_id = create_large_run(ledger, sources=sources, stored=1)

    def note(_c: Any, _x: Any, statement: str, parameters: Any, _y: Any, many: bool) -> None:
        if statement.startswith("INSERT INTO items"):
            written.append(len(parameters) if many else 1)

    def reading() -> Iterator[Any]:
        for item in four_of_each(ledger.datasets.sources("demo"))[1:]:
            read.append(item.ordinal - sum(written))
            yield item

    event.listen(
        ledger._session.database.engine, "before_cursor_execute", note
    )  # the ledger's own transactions
    leased = ledger.stages.lease((), seconds=30.0, first_of=[KIND])
    assert leased is not None
    store_plan(leased, reading(), ledger.stages)
    assert sum(written) == ledger.runs.get(run_id).request_counts.total - 1 == 4 * sources - 1
    assert max(written) <= CHUNK
    assert max(read) <= 2 * CHUNK


async def test_a_process_plans_one_large_run_at_a_time(ledger: Ledger) -> None:
    for _ in range(2):
        create_large_run(ledger, sources=SOURCES)
    planner = large_planner(ledger)
    first = await planner.lease()
    assert first is not None
    assert await planner.lease() is None
    await planner.plan(first)
    assert await plan_rest(planner)


def test_a_run_has_an_event_from_its_creation_on(ledger: Ledger) -> None:
    run_id = create_large_run(ledger, sources=SOURCES)
    event_of_creation = ledger.events.last(run_id)
    assert event_of_creation.state == "validating"
    assert event_of_creation.request_counts.total == SMALL_CHUNK
    assert [item.ordinal for item in ledger.items.page(run_id, Item).items] == list(range(SMALL_CHUNK))
    assert config()["request"] == ledger.runs.get(run_id).resolved_config["request"]
    assert ledger.stages.lease((), seconds=30.0) is None
    assert isinstance(ledger.stages.lease((), seconds=30.0, first_of=[KIND]), LeasedStage)
