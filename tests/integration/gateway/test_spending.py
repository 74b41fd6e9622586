"""What runs ask servers of others for: an account that is never too low, and a budget at which they stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import RunResume
from counterpose_core.contract.spending import Spent
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.records.items import Plan
from counterpose_gateway.records.spending import Lease
from counterpose_gateway.runs.submission import submit_planned
from counterpose_gateway.services.calls import Accounts
from counterpose_gateway.worker.spending import LedgerAccounts
from fakes.contexts import run_context
from fakes.gateway import FakeGateway, fake_gateway
from fakes.images_gateway import accounted, images_gateway
from fakes.images_server import ImagesServer, Reply, refusal
from fakes.ledgers import config, planned_items
from fakes.page_runs import BODY
from fakes.pages import text_of
from fakes.suite_servers import images_suite
from fakes.world import fake_suite

SMALL = BODY | {"confirm": False, "preservation": "none"}
PRICES = {"editor-1": {"usd_per_image": 0.02, "usd_per_million_output_tokens": 10.0}}
OF_AN_IMAGE = 0.02 + 272 * 10.0 / 1e6
"""By these prices and the fake's usage."""
ONE = Spent(calls=1, images=1)

Served = tuple[FakeGateway, ImagesServer]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A gateway with 16 source images whose editor asks a server, and that server."""
    async with images_gateway(tmp_path) as (gateway, server):
        await gateway.upload("demo", 4)
        yield gateway, server


async def work(served: Served, workers: int = 1, accounts: Accounts | None = None) -> None:
    """Let so many workers work until all runs have ended."""
    gateway, server = served
    suite, keeping = images_suite(server.url), accounts or LedgerAccounts(gateway.ledger)
    made = [gateway.worker(accounted(gateway.services, keeping, suite)) for _ in range(workers)]
    for _ in range(100):
        await asyncio.gather(*(worker.work_off() for worker in made))
        if all(run.ended_at is not None for run in gateway.ledger.runs.page().runs):
            return
        # The budget of a run is looked at again when what was being worked on has been recorded.
        await asyncio.sleep(0.1)
    raise AssertionError("a run did not end")


async def start(gateway: FakeGateway, **fields: Any) -> str:
    answer = await gateway.http.post("/v1/stress-tests", json=SMALL | fields)
    assert answer.status_code == 202, answer.text
    return f"/v1/runs/{answer.json()['id']}"


async def read(gateway: FakeGateway, address: str) -> dict[str, Any]:
    found: dict[str, Any] = (await gateway.http.get(address)).json()
    return found


def rows_of(ledger: Ledger) -> int:
    """How many rows of spending and of budgets there are."""
    with ledger._session.reading() as connection:
        return sum(
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (schema.spending, schema.spending_limits)
        )


async def test_a_run_stops_at_its_budget_keeps_what_it_has_and_goes_on_with_a_larger_one(
    served: Served,
) -> None:
    gateway, server = served
    run = await start(gateway, spending={"images": 20, "prices": PRICES})
    await work(served)
    ended, summary = await read(gateway, run), await read(gateway, f"{run}/summary")
    assert (ended["state"], ended["problem"]["code"]) == ("failed", "budget-spent")
    assert len(server.asked) == 20
    spending = summary["spending"]
    assert spending["services"]["editor"] == {
        "calls": 20, "images": 20, "input_tokens": 800, "output_tokens": 5440,
    }  # fmt: skip
    assert spending["usd"] == pytest.approx(20 * OF_AN_IMAGE)
    left = "13 of 16 source images are not tested in full"
    assert spending["stopped"] == f"stopped at its budget of 20 images; {left}"
    assert summary["counts"]["done"] == 16
    report = text_of((await gateway.http.get(f"{run}/report")).text)
    assert f"The run {spending['stopped']}." in report
    assert "20 calls, 20 images, 800 tokens sent and 5,440 answered: $0.45" in report

    refused = await gateway.http.post(f"{run}/resume")
    assert (refused.status_code, refused.json()["code"]) == (409, "budget-spent")
    other = await gateway.http.post(f"{run}/resume", json={"spending": {"usd": 5.0}})
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (422, "/spending/usd")

    resumed = await gateway.http.post(f"{run}/resume", json={"spending": {"images": 200}})
    assert resumed.status_code == 200, resumed.text
    await work(served)
    ended, summary = await read(gateway, run), await read(gateway, f"{run}/summary")
    assert (ended["state"], ended["problem"]) == ("completed", None)
    # What was answered before is not asked for again, and counted once.
    assert summary["spending"]["services"]["editor"]["images"] == len(server.asked) == 96
    assert summary["spending"].get("stopped") is None


@pytest.mark.parametrize("budget", [{"images": 30}, {"usd": 30 * OF_AN_IMAGE, "prices": PRICES}])
async def test_three_workers_at_once_ask_for_no_more_than_the_budget(
    served: Served, budget: dict[str, Any]
) -> None:
    gateway, server = served
    run = await start(gateway, spending=budget)
    await work(served, workers=3)
    assert (await read(gateway, run))["problem"]["code"] == "budget-spent"
    # The whole of a call must fit: up to three edits and a placebo of one source image.
    assert 27 <= len(server.asked) <= 30


async def test_a_budget_that_ends_inside_a_source_keeps_its_items_that_are_done(served: Served) -> None:
    gateway, _ = served
    # A control is drawn twice, and the edits and the placebo of a source take four more.
    run = await start(gateway, spending={"images": 8})
    await work(served)
    items = (await read(gateway, f"{run}/items?limit=500"))["items"]
    done = [item for item in items if item["state"] == "done"]
    groups = {item["item_group"]: 0 for item in done}
    for item in done:
        groups[item["item_group"]] += 1
    assert min(groups.values()) < max(groups.values())
    assert {item["code"] for item in items if item["state"] == "failed"} == {"budget-spent"}
    missing = {item["item_group"] for item in items if item["state"] != "done"}
    told = (await read(gateway, f"{run}/summary"))["spending"]["stopped"]
    assert told.endswith(f"; {len(missing)} of 16 source images are not tested in full")
    assert (await gateway.http.get(f"{run}/report")).status_code == 200


@pytest.mark.parametrize("images", [40, 100])
async def test_a_run_in_stages_stops_in_whichever_it_is_and_goes_on(served: Served, images: int) -> None:
    gateway, server = served
    await gateway.upload("demo", 12)
    run = await start(gateway, confirm=True, spending={"images": images})
    await work(served)
    stopped = await read(gateway, run)
    assert (stopped["state"], stopped["problem"]["code"]) == ("failed", "budget-spent")
    assert len(server.asked) <= images
    resumed = await gateway.http.post(f"{run}/resume", json={"spending": {"images": 1000}})
    assert resumed.status_code == 200, resumed.text
    await work(served)
    ended, summary = await read(gateway, run), await read(gateway, f"{run}/summary")
    assert (ended["state"], ended["problem"]) == ("completed", None)
    assert ended["stage"] > 1
    assert summary["spending"]["services"]["editor"]["images"] == len(server.asked)


async def test_an_image_that_the_store_has_costs_nothing(served: Served) -> None:
    gateway, server = served
    await start(gateway, spending={"images": 100})
    await work(served)
    asked = len(server.asked)
    again = await start(gateway, spending={"images": 100, "prices": PRICES})
    await work(served)
    told = (await read(gateway, f"{again}/summary"))["spending"]
    assert (len(server.asked), told["services"], told["usd"]) == (asked, {}, 0.0)


class Killed(LedgerAccounts):
    """Of a worker that dies between each call of so many and its settlement."""

    def __init__(self, ledger: Ledger, calls: int) -> None:
        super().__init__(ledger)
        self.left = calls

    async def settle(self, run_id: str, call: str, spent: Spent) -> None:
        """Leave the first reservations as they are."""
        self.left -= 1
        if self.left < 0:
            await super().settle(run_id, call, spent)


async def test_what_was_reserved_and_never_settled_counts_in_full(served: Served) -> None:
    gateway, server = served
    run = await start(gateway, spending={"images": 200, "prices": PRICES})
    await work(served, accounts=Killed(gateway.ledger, 2))
    told = (await read(gateway, f"{run}/summary"))["spending"]
    assert told["unanswered"]["images"] > 0
    assert len(server.asked) <= told["services"]["editor"]["images"] <= 200
    items = (await read(gateway, f"{run}/items?limit=500"))["items"]
    marks = {Lease("worker", item["item_group"]).mark for item in items}
    with gateway.ledger._session.reading() as connection:
        calls = set(connection.execute(select(schema.spending.c.call)).scalars()) - {"editor"}
    # Each names the lease under which it was made: nobody waits for it when that has ended.
    assert len(calls) == 2
    assert {call.partition("-")[0] for call in calls} <= marks


async def test_a_summary_that_was_read_tells_what_is_settled_later(served: Served) -> None:
    gateway, _ = served
    run = await start(gateway, spending={"images": 50})
    spending, own = gateway.ledger.spending, run.rpartition("/")[-1]
    spending.reserve(own, "a" * 32, "editor", Spent(calls=8, images=8))
    await gateway.http.post(f"{run}/cancel")
    assert (await read(gateway, f"{run}/summary"))["spending"]["unanswered"]["images"] == 8
    spending.settle(own, "a" * 32, Spent(calls=2, images=2))
    told = (await read(gateway, f"{run}/summary"))["spending"]
    assert (told["services"]["editor"]["images"], told["unanswered"]["images"]) == (2, 0)


async def test_what_a_server_refuses_costs_nothing(tmp_path: Path) -> None:
    def refuse(*_: object) -> Reply:
        return refusal(400, "moderation_blocked", "Rejected.")

    async with images_gateway(tmp_path, refuse) as (gateway, server):
        await gateway.upload("demo", 1)
        run = await start(gateway, spending={"images": 10})
        await work((gateway, server))
        told = (await read(gateway, f"{run}/summary"))["spending"]
        assert server.asked
        assert (told["services"], told["unanswered"]["images"]) == ({}, 0)


@pytest.mark.parametrize(
    ("spending", "code", "says"),
    [
        ({"usd": 1.0}, "price-missing", "no price for 'editor-1 at 127.0.0.1"),
        ({"usd": 1.0, "prices": {"editor-2": {"usd_per_image": 1.0}}}, "price-missing", "no price for"),
        ({"usd": -1.0}, "invalid-request", "/spending/usd"),
        ({"images": 0}, "invalid-request", "/spending/images"),
        ({"prices": {"editor-1": {}}}, "invalid-request", "must name what it is for"),
        ({"prices": {"editor-1": {"usd_per_image": -0.1}}}, "invalid-request", "usd_per_image"),
        ({"prices": {"editor-1": {"usd_per_picture": 0.1}}}, "invalid-request", "usd_per_picture"),
    ],
)
async def test_a_budget_that_cannot_be_kept_is_refused_before_anything_starts(
    served: Served, spending: dict[str, Any], code: str, says: str
) -> None:
    gateway, server = served
    answer = await gateway.http.post("/v1/stress-tests", json=SMALL | {"spending": spending})
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert says in answer.text
    assert (server.asked, gateway.ledger.runs.page().runs) == ([], [])


async def test_no_number_is_no_budget(served: Served) -> None:
    gateway, _ = served
    body = json.dumps(SMALL | {"spending": {"usd": float("nan")}})
    answer = await gateway.http.post(
        "/v1/stress-tests", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code in (400, 422)


async def test_a_dry_run_names_calls_and_money_and_the_price_that_is_missing(served: Served) -> None:
    gateway, _ = served
    asked = SMALL | {"spending": {"prices": PRICES | {"other": {"usd_per_call": 1.0}}}}
    told = await read_estimate(gateway, asked)
    # Of 16 sources: the control twice, the placebo, which may have the caption's words, too, and three edits.
    assert told["services"] == {
        "editor": {"calls": 112, "images": 112, "input_tokens": 0, "output_tokens": 0},
    }  # fmt: skip
    assert told["usd"] == pytest.approx(112 * 0.02)
    assert (told["unpriced"], told["unused_prices"]) == ([], ["other"])
    none = await read_estimate(gateway, SMALL | {"spending": {"prices": {"other": {"usd_per_call": 1.0}}}})
    assert [name.partition(" at ")[0] for name in none["unpriced"]] == ["editor-1"]
    assert none["usd"] is None


async def read_estimate(gateway: FakeGateway, body: dict[str, Any]) -> dict[str, Any]:
    answer = await gateway.http.post("/v1/stress-tests/estimate", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()["spending"]
    return told


async def test_a_suite_that_calls_nobody_writes_no_row_and_has_no_use_for_a_budget(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 2)
        for field, value in (("usd", 1.0), ("images", 5)):
            answer = await gateway.http.post(
                "/v1/stress-tests", json=SMALL | {"spending": {field: value, "prices": PRICES}}
            )
            assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, f"/spending/{field}")
        run = await start(gateway)
        services = accounted(gateway.services, LedgerAccounts(gateway.ledger), fake_suite())
        await gateway.worker(services).work_off()
        assert (await read(gateway, run))["state"] == "completed"
        assert "spending" not in await read(gateway, f"{run}/summary")
        assert "spending" not in (await gateway.http.post("/v1/stress-tests/estimate", json=SMALL)).json()
        assert rows_of(gateway.ledger) == 0


async def test_a_run_without_a_budget_is_accounted_for(served: Served) -> None:
    gateway, server = served
    run = await start(gateway)
    await work(served)
    told = (await read(gateway, f"{run}/summary"))["spending"]
    assert (told["services"]["editor"]["images"], told["usd"]) == (len(server.asked), None)


async def test_a_run_that_continues_another_has_that_one_s_budget_for_itself(ledger: Ledger) -> None:
    context = run_context(ledger, BlobStore("memory://continued"))
    context = replace(context, suite=images_suite("https://images.example/v1"))
    asked = {**config()["request"], "spending": {"images": 60, "prices": PRICES}}
    own = StressTestConfig.model_validate(config() | {"request": asked})

    async def plan() -> Plan:
        return Plan("demo", own, planned_items())

    child = await submit_planned(STRESS_TEST, RunResume(), plan, context, None)
    told = ledger.spending.of(child.id)
    assert told is not None
    assert (told.usd, told.unpriced) == (0.0, [])
    refusal = ledger.spending.reserve(child.id, "a" * 32, "editor", Spent(calls=61, images=61))
    assert refusal is not None
    assert "stopped at its budget of 60 images" in refusal.detail


ASKED = {"classifiers": ["leaning"], "seed": 0}
HUNT = ASKED | {"labels": ["plate"], "budget": {"images": 600}}
CAPTIONS = {"kind": "captions", "captions": [{"label": "plate", "text": "a photo of a plate"}]}
DATASET = ASKED | {"seeds": CAPTIONS}


@pytest.fixture
async def drawing(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    """A gateway of a suite whose editor draws from text at an address."""
    async with fake_gateway(tmp_path, suite=images_suite("https://images.example/v1", draws=True)) as gateway:
        yield gateway


async def test_an_adversarial_dataset_has_a_budget_and_needs_its_prices(drawing: FakeGateway) -> None:
    path = "/v1/adversarial-datasets"
    refused = await drawing.http.post(path, json=DATASET | {"spending": {"usd": 1.0}})
    assert refused.json()["code"] == "price-missing", refused.text
    made = await drawing.http.post(path, json=DATASET | {"spending": {"images": 60}})
    assert made.status_code == 202, made.text
    spending, run = drawing.ledger.spending, made.json()["id"]
    refusal = spending.reserve(run, "a" * 32, "editor", Spent(calls=61, images=61))
    assert refusal is not None
    assert "stopped at its budget of 60 images" in refusal.detail
    summary = await read(drawing, f"/v1/runs/{run}/summary")
    assert summary["spending"]["stopped"].startswith("stopped at its budget of 60 images")
