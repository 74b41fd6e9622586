"""Runs, items and jobs of a kind that only another version knows: shown, named, and left to that version."""

from __future__ import annotations

import asyncio
import html
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from counterpose import AsyncClient
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import NotFound
from counterpose_core.suite import load_suite
from counterpose_gateway.ledger.items.leases import UNEXPECTED_SECONDS
from counterpose_gateway.worker import worker as worker_module
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock, create_run, done, lease, new_ledger
from fakes.processes import poll_until

KIND = "time-travel"
SAID = f"this version of Counterpose knows no kind of run {KIND!r}; update it"
SAID_IN_HTML = SAID.replace("'", "&#39;")
BODY = {"dataset": "demo", "classifiers": ["steady"], "seed": 0}


def rename(folder: Path, rows: str, kind: str = KIND) -> None:
    """Give rows of the ledger another kind."""
    with sqlite3.connect(folder / "ledger.db") as database:
        database.execute(f"UPDATE {rows.replace(' ', ' SET kind = ? ', 1)}", (kind,))
    database.close()


async def new_run(gateway: FakeGateway) -> str:
    return str((await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"])


async def work_off(gateway: FakeGateway, **options: Any) -> None:
    """Work until nothing can be leased; a worker that leases such a run again and again is stopped."""
    async with asyncio.timeout(60):
        await gateway.worker(**options).work_off()


async def strange_run(gateway: FakeGateway, folder: Path) -> str:
    """A queued run of the kind."""
    await gateway.upload("demo", 1)
    run = await new_run(gateway)
    rename(folder, "runs WHERE true")
    return run


async def test_a_worker_leaves_such_a_run_and_goes_on_with_the_others(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        strange = await strange_run(gateway, tmp_path)
        known = await new_run(gateway)
        await work_off(gateway)
        assert gateway.ledger.runs.get(known).state == "completed"
        waits = gateway.ledger.runs.get(strange)
        assert (waits.kind, waits.state, waits.request_counts.done) == (KIND, "queued", 0)
        # A worker that knows the kind goes on with it.
        rename(tmp_path, f"runs WHERE id = '{strange}'", "stress-test")
        await work_off(gateway)
        assert gateway.ledger.runs.get(strange).state == "completed"


async def test_a_worker_of_such_a_run_alone_waits(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        run = await strange_run(gateway, tmp_path)
        await work_off(gateway, run_id=run)
        assert gateway.ledger.runs.get(run).state == "queued"


async def test_the_worker_says_once_which_run_waits_and_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "UNKNOWN_SECONDS", 0.01)
    async with fake_gateway(tmp_path) as gateway:
        run = await strange_run(gateway, tmp_path)
        stop = asyncio.Event()
        working = asyncio.create_task(gateway.worker().work(stop))
        await poll_until(lambda: bool(caplog.messages), 30)
        await asyncio.sleep(0.05)
        stop.set()
        await working
        assert caplog.messages == [f"run {run} waits for another worker: {SAID}"]


def test_items_of_such_a_kind_wait_while_the_others_are_leased(tmp_path: Path) -> None:
    clock = Clock()
    ledger = new_ledger(tmp_path, clock)
    run = create_run(ledger, sources=1, per_source=2)
    rename(tmp_path, "items WHERE ordinal = 0")
    (known,) = lease(ledger).items
    assert known.ordinal == 1
    ledger.items.finish(known.id, known.fence, done())
    assert ledger.items.lease("worker", seconds=30.0) is None
    rename(tmp_path, "items WHERE true", "edit")
    clock.now += UNEXPECTED_SECONDS
    (waited,) = lease(ledger).items
    ledger.items.finish(waited.id, waited.fence, done())
    assert ledger.runs.get(run).state == "completed"
    ledger.close()


@pytest.mark.parametrize("thresholds", ["", "?direction=0.5", "?class_similarity=0.99"])
async def test_figures_say_which_items_another_version_made_and_leave_them_out(
    tmp_path: Path, thresholds: str
) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 2)
        run = await new_run(gateway)
        await work_off(gateway)
        rename(tmp_path, "items WHERE kind = 'edit' AND state = 'done' AND ordinal % 2 = 0")
        shown = StressTestSummary.model_validate_json(
            (await gateway.http.get(f"/v1/runs/{run}/summary{thresholds}")).content
        )
        number = shown.unknown_kinds[KIND]
        assert number > 0
        said = f"{number} items are of the kind {KIND!r}, which this version does not know"
        assert said in str(shown)
        report = await gateway.http.get(f"/v1/runs/{run}/report{thresholds}")
        assert said in html.unescape(report.text)
        assert (await gateway.http.get(f"/v1/runs/{run}/export{thresholds}")).status_code == 200


async def test_a_run_of_operations_alone_says_so_too(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, suite=load_suite("photographs")) as gateway:
        await gateway.upload("demo", 2)
        run = await new_run(gateway)
        await work_off(gateway)
        rename(tmp_path, "items WHERE ordinal < 3")
        path = f"/v1/runs/{run}"
        shown = StressTestSummary.model_validate_json((await gateway.http.get(f"{path}/summary")).content)
        assert shown.unknown_kinds == {KIND: 3}
        said = f"3 items are of the kind {KIND!r}, which this version does not know"
        assert said in html.unescape((await gateway.http.get(f"{path}/report")).text)


def test_a_job_of_such_a_kind_waits_and_says_so_until_it_is_cancelled(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    created = ledger.jobs.create(
        cluster="gpus", workers=4, kind="gate", request={"dataset": "demo"}, fingerprint="f"
    )
    ledger.jobs.put_off(created, 0.0)
    rename(tmp_path, "jobs WHERE true")
    assert ledger.jobs.lease(("gpus",), 30.0) is None
    (job,) = ledger.jobs.page().jobs
    assert (job.kind, job.message) == (KIND, SAID)
    ledger.jobs.begin_cancelling(created.id)
    leased = ledger.jobs.lease(("gpus",), 30.0)
    assert leased is not None
    ledger.jobs.end(leased, "cancelled")
    assert ledger.jobs.get(created.id).message == ""
    ledger.close()


@pytest.mark.parametrize("state", ["queued", "completed"])
async def test_pages_show_such_a_run_by_the_name_of_its_kind(tmp_path: Path, state: str) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 1)
        run = await new_run(gateway)
        if state == "completed":
            await work_off(gateway)
        rename(tmp_path, "runs WHERE true")
        listed = await gateway.http.get("/ui")
        assert listed.status_code == 200
        assert f"{KIND} of demo" in listed.text
        shown = await gateway.http.get(f"/ui/runs/{run}")
        assert shown.status_code == 200
        assert SAID_IN_HTML in shown.text
        # Nothing on it asks for more every few seconds, such as for a report that it has not.
        assert "every" not in shown.text
        items = await gateway.http.get(f"/ui/runs/{run}/items")
        assert (items.status_code, SAID_IN_HTML[1:] in items.text) == (404, True)


async def test_the_api_and_the_sdk_show_such_a_run_and_refuse_its_figures_by_name(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        run = await strange_run(gateway, tmp_path)
        client = AsyncClient(http=gateway.http)
        (listed,) = await client.runs.list()
        assert (listed.run.kind, listed.id, type(listed).__name__) == (KIND, run, "AsyncUnknownRun")
        read = await client.runs.get("@last")
        with pytest.raises(NotFound, match=SAID):
            await read.summary()
        for rest in ("report", "items", "results", "export"):
            answer = await gateway.http.get(f"/v1/runs/{run}/{rest}")
            assert (answer.status_code, answer.json()["detail"]) == (404, SAID)
        assert (await read.cancel()).run.state == "cancelled"
        await read.delete()
        assert await client.runs.list() == []
