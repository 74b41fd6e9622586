"""What runs ask servers of others for: an account that is never too low, and a budget at which they stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fakes.gateway import FakeGateway
from fakes.images_gateway import accounted, images_gateway
from fakes.images_server import ImagesServer
from fakes.page_runs import BODY

PRICE = {"usd_per_image": 0.02, "usd_per_million_output_tokens": 10.0}
SMALL = BODY | {"confirm": False, "preservation": "none"}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[FakeGateway, ImagesServer]]:
    """A gateway whose editor asks a server, and that server."""
    async with images_gateway(tmp_path) as (gateway, server):
        await gateway.upload("demo", 4)
        yield gateway, server


async def work(gateway: FakeGateway, server: ImagesServer, workers: int = 1) -> None:
    """Let so many workers work until the run has ended."""
    services = [accounted(gateway, server.url) for _ in range(workers)]
    made = [gateway.worker(each, concurrency=1) for each in services]
    for _ in range(50):
        await asyncio.gather(*(worker.work_off() for worker in made))
        runs = gateway.ledger.runs.page().runs
        if all(run.ended_at is not None for run in runs):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the run did not end")


async def start(gateway: FakeGateway, **spending: Any) -> str:
    answer = await gateway.http.post("/v1/stress-tests", json=SMALL | {"spending": spending})
    assert answer.status_code == 202, answer.text
    return f"/v1/runs/{answer.json()['id']}"


async def test_a_run_stops_at_its_budget_keeps_what_it_has_and_goes_on_with_a_larger_one(
    served: tuple[FakeGateway, ImagesServer],
) -> None:
    gateway, server = served
    run = await start(gateway, images=20, prices={"editor-1": PRICE})
    await work(gateway, server)
    ended = (await gateway.http.get(run)).json()
    assert (ended["state"], ended["problem"]["code"]) == ("failed", "budget-spent")
    assert len(server.asked) <= 20
    summary = (await gateway.http.get(f"{run}/summary")).json()
    assert summary["spending"] is not None
    assert summary["spending"]["services"]["editor"]["images"] == len(server.asked)
