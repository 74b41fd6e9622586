"""The changing part of a run's page: made once for all who watch, and never for a run that has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from counterpose_core.contract.runs import Run
from counterpose_core.errors import BackendUnavailable
from counterpose_gateway.routes.context import GatewayContext
from counterpose_gateway.ui import page_state, run_page
from counterpose_gateway.ui.page_state import LiveParts
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import create_run, done, lease


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path) as opened:
        yield opened


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the runs whose parts were made."""
    runs: list[str] = []
    newest = run_page._newest

    def noted(run: Run, context: GatewayContext) -> object:
        runs.append(run.id)
        return newest(run, context)

    monkeypatch.setattr(run_page, "_newest", noted)
    return runs


async def watch(gateway: FakeGateway, run: str, viewers: int = 1) -> list[httpx.Response]:
    path = f"/ui/runs/{run}/live"
    headers = {"hx-request": "true"}
    return list(await asyncio.gather(*(gateway.http.get(path, headers=headers) for _ in range(viewers))))


def finish_one(gateway: FakeGateway) -> None:
    item = lease(gateway.ledger).items[0]
    gateway.ledger.items.finish(item.id, item.fence, done())


async def test_forty_who_watch_one_run_cost_one_part_and_see_the_next_change(
    gateway: FakeGateway, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(gateway.ledger, per_source=1)
    answers = await watch(gateway, run, 40)
    assert {answer.text for answer in answers} == {answers[0].text}
    assert "content-security-policy" in answers[0].headers
    await watch(gateway, run, 40)
    assert made == [run]
    monkeypatch.setattr(page_state, "LOOK_SECONDS", 0.0)
    finish_one(gateway)
    (changed,) = await watch(gateway, run)
    assert "1 of 3" in changed.text
    assert made == [run, run]
    await watch(gateway, run, 40)
    assert made == [run, run]


async def test_the_end_of_a_run_is_shown_at_once(gateway: FakeGateway, made: list[str]) -> None:
    run = create_run(gateway.ledger)
    await watch(gateway, run)
    gateway.ledger.runs.cancel(run)
    (answer,) = await watch(gateway, run)
    assert (answer.status_code, answer.headers["hx-refresh"]) == (204, "true")
    assert made == [run]


async def test_while_a_part_is_made_others_get_the_last_one_and_one_who_leaves_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_state, "LOOK_SECONDS", 0.0)
    parts, going_on = LiveParts(), threading.Event()

    def slow() -> str:
        assert going_on.wait(100)
        return "second"

    assert await parts.of("run", "a", lambda: "first") == "first"
    leaving, staying = (asyncio.create_task(parts.of("run", "b", slow)) for _ in range(2))
    # The second is not made before: both would wait for it.
    assert await staying == "first"
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    going_on.set()
    while parts._making:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert await parts.of("run", "b", slow) == "second"


async def test_a_part_that_cannot_be_made_is_tried_again_and_few_are_kept() -> None:
    parts = LiveParts()

    def fail() -> str:
        raise BackendUnavailable("the ledger does not answer")

    with pytest.raises(BackendUnavailable):
        await parts.of("run", "a", fail)
    assert await parts.of("run", "a", lambda: "made") == "made"
    for number in range(100):
        await parts.of(f"run {number}", "a", lambda: "made")
    assert len(parts._parts) == page_state._PARTS
    assert parts._making == {}
