"""What planning asks servers of others for: bounded by the run's budget, and part of its account."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate
from counterpose_core.contract.spending import Spent
from counterpose_gateway.worker.spending import LedgerAccounts
from fakes.gateway import FakeGateway
from fakes.images_gateway import accounted, images_gateway
from fakes.images_server import ImagesServer
from fakes.pages import text_of
from fakes.suite_servers import images_suite

ASKED = {"classifiers": ["leaning"], "seed": 0}
HUNT = ASKED | {"labels": ["plate", "boat"], "budget": {"images": 800}}
PROMPTS = [f"a photo of a plate in the {place}" for place in ("snow", "fog")]
CAPTIONS = {"kind": "captions", "captions": [{"label": "plate", "text": text} for text in PROMPTS]}
DATASET = ASKED | {"seeds": CAPTIONS, "samples": 8, "most_kept": 4, "images": 40, "baseline": 8}
PRICES = {"editor-1": {"usd_per_image": 0.02}}
ONE = Spent(calls=1, images=1, input_tokens=40, output_tokens=272)
"""What an image costs by the server's usage."""

Served = tuple[FakeGateway, ImagesServer]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A gateway of a suite whose editor draws from text at an address, and that server."""
    async with images_gateway(tmp_path, draws=True) as (gateway, server):
        yield gateway, server


async def read(gateway: FakeGateway, run: str, part: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = (await gateway.http.get(f"/v1/runs/{run}{part}")).json()
    return answer


async def start(gateway: FakeGateway, path: str, body: dict[str, Any]) -> str:
    answer = await gateway.http.post(f"/v1/{path}", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def work(served: Served, run: str) -> dict[str, Any]:
    """Work until the run has ended, and return it."""
    gateway, server = served
    keeping = LedgerAccounts(gateway.ledger)
    worker = gateway.worker(accounted(gateway.services, keeping, images_suite(server.url, draws=True)))
    for _ in range(100):
        await worker.work_off()
        if (ended := await read(gateway, run))["ended_at"] is not None:
            return ended
        await asyncio.sleep(0.1)
    raise AssertionError("the run did not end")


@pytest.mark.parametrize(
    ("path", "body", "images"), [("bug-hunts", HUNT, 2), ("adversarial-datasets", DATASET, 1)]
)
async def test_what_planning_draws_is_in_the_run_s_account(
    served: Served, path: str, body: dict[str, Any], images: int
) -> None:
    gateway, server = served
    run = await start(gateway, path, body | {"spending": {"prices": PRICES}})
    assert len(server.asked) == images
    told = (await read(gateway, run, "/summary"))["spending"]
    assert told["services"] == {"editor": ONE.times(images).model_dump()}
    assert told["usd"] == pytest.approx(0.02 * images)
    assert told["unanswered"]["calls"] == 0
    # Of the budget, what planning has taken is gone.
    limits = {"spending": {"images": images + 3}}
    other = await start(gateway, path, body | limits | {"seed": 1})
    reserve = gateway.ledger.spending.reserve
    assert reserve(other, "a" * 32, "editor", Spent(calls=3, images=3)) is None
    assert reserve(other, "b" * 32, "editor", Spent(calls=1, images=1)) is not None


@pytest.mark.parametrize(
    ("limits", "pointer", "says"),
    [
        ({"images": 1}, "/spending/images", "its budget of 1 image (0 were asked for or are reserved, and "
         "the next call asks for up to 2); allow a larger one: --budget-images"),
        ({"usd": 0.03, "prices": PRICES}, "/spending/usd", "its budget of $0.03 ($0.00 are spent or "
         "reserved, and the next call costs up to $0.04); allow a larger one: --budget-usd"),
    ],
)  # fmt: skip
async def test_a_hunt_whose_examples_do_not_fit_its_budget_is_refused_and_asks_nothing(
    served: Served, limits: dict[str, Any], pointer: str, says: str
) -> None:
    gateway, server = served
    for path in ("/v1/bug-hunts", "/v1/bug-hunts/estimate"):
        refused = await gateway.http.post(path, json=HUNT | {"spending": limits})
        assert (refused.status_code, refused.json()["code"]) == (409, "budget-spent"), refused.text
        assert refused.json()["errors"][0]["pointer"] == pointer
        assert says in refused.json()["detail"]
    assert (server.asked, gateway.ledger.runs.page().runs) == ([], [])


async def test_each_call_of_planning_is_checked_by_what_the_ones_before_took(served: Served) -> None:
    gateway, server = served
    own = {"descriptions": ["a plate in the snow", "a plate in the fog"], "held_out": 16}
    body = HUNT | own | {"labels": ["plate"], "spending": {"images": 2}}
    refused = await gateway.http.post("/v1/bug-hunts", json=body)
    assert "(1 were asked for or are reserved, and the next call asks for up to 2)" in refused.text
    # The label's, which the next submission need not pay again.
    assert (len(server.asked), gateway.ledger.runs.page().runs) == (1, [])
    run = await start(gateway, "bug-hunts", body | {"spending": {"images": 3}})
    told = (await read(gateway, run, "/summary"))["spending"]
    assert told["services"]["editor"]["images"] == len(server.asked) - 1 == 2
    anew = await start(gateway, "bug-hunts", body | {"spending": {"images": 3}, "seed": 1})
    # By two calls.
    told = (await read(gateway, anew, "/summary"))["spending"]
    assert told["services"] == {"editor": ONE.times(3).model_dump()}


async def test_a_measurement_of_descriptions_keeps_to_the_budget_of_its_hunt(served: Served) -> None:
    gateway, server = served
    hunt = await start(gateway, "bug-hunts", HUNT | {"labels": ["plate"], "spending": {"images": 1}})
    await gateway.http.post(f"/v1/runs/{hunt}/cancel")
    asked = {"descriptions": ["a plate in the snow"]}
    refused = await gateway.http.post(f"/v1/runs/{hunt}/descriptions", json=asked)
    assert (refused.status_code, refused.json()["code"]) == (409, "budget-spent"), refused.text
    assert "its budget of 1 image (1 were asked for" in refused.json()["detail"]
    # The request has no budget to point to.
    assert "/spending" not in refused.text
    assert len(gateway.ledger.runs.page().runs) == 1
    assert len(server.asked) == 2


async def test_a_key_whose_request_comes_twice_has_one_account_of_both(served: Served) -> None:
    gateway, server = served
    both = [gateway.http.post("/v1/bug-hunts", json=HUNT, headers={"idempotency-key": "k"}) for _ in range(2)]
    answers = await asyncio.gather(*both)
    [run] = {answer.json()["id"] for answer in answers}
    told = (await read(gateway, run, "/summary"))["spending"]
    assert told["services"]["editor"]["images"] == len(server.asked)


async def test_an_estimate_of_a_hunt_checks_the_request_and_names_what_it_did_not_draw(
    served: Served,
) -> None:
    gateway, server = served
    asked = HUNT | {"spending": {"prices": PRICES}}
    answer = await gateway.http.post("/v1/bug-hunts/estimate", json=asked)
    assert answer.status_code == 200, answer.text
    found = BugHuntEstimate.model_validate(answer.json())
    assert found.undrawn is not None
    assert found.undrawn.prompts == [f"a realistic photograph of a {label}." for label in ("plate", "boat")]
    assert found.undrawn.spending.services == {"editor": Spent(calls=2, images=2)}
    assert found.undrawn.spending.usd == pytest.approx(0.04)
    assert "not drawn: 2 images, so that it was not seen whether they can be drawn: the editor" in str(found)
    assert "the editor asks its server at most for 2 calls, 2 images" in str(found)
    # It is refused as its run would be.
    for wrong, code in (
        ({"labels": ["plat"]}, "invalid-request"), ({"classifiers": ["learning"]}, "unknown-model"),
        ({"spending": {"usd": 1.0}}, "price-missing"),
        ({"descriptions": ["a sled in the snow"]}, "invalid-request"),
    ):  # fmt: skip
        refused = await gateway.http.post("/v1/bug-hunts/estimate", json=HUNT | wrong)
        assert refused.json().get("code") == code, refused.text
    alone = await gateway.http.post("/v1/bug-hunts/estimate", json=HUNT | {"classifiers": []})
    assert "undrawn" not in alone.json()
    assert server.asked == []


async def test_an_adversarial_dataset_stops_at_its_budget_and_goes_on_with_a_larger_one(
    served: Served,
) -> None:
    gateway, server = served
    run = await start(gateway, "adversarial-datasets", DATASET | {"spending": {"images": 14}})
    stopped = await work(served, run)
    assert (stopped["state"], stopped["problem"]["code"]) == ("failed", "budget-spent")
    assert 1 < len(server.asked) <= 14
    summary = await read(gateway, run, "/summary")
    told = summary["spending"]
    assert told["services"]["editor"]["images"] == len(server.asked)
    assert told["stopped"].startswith("stopped at its budget of 14 images; ")
    assert told["stopped"].endswith(" items are not done")
    report = text_of((await gateway.http.get(f"/v1/runs/{run}/report")).text)
    assert f"The run {told['stopped']}." in report
    assert f"servers of others: {len(server.asked)} calls, {len(server.asked)} images" in report
    kept = {item["id"] for item in await items(gateway, run) if item["state"] in ("done", "filtered")}
    assert kept

    resumed = await gateway.http.post(f"/v1/runs/{run}/resume", json={"spending": {"images": 500}})
    assert resumed.status_code == 200, resumed.text
    ended = await work(served, run)
    assert (ended["state"], ended["problem"]) == ("completed", None)
    assert kept <= {item["id"] for item in await items(gateway, run) if item["state"] in ("done", "filtered")}
    told = (await read(gateway, run, "/summary"))["spending"]
    assert told["services"]["editor"]["images"] == len(server.asked)
    # Nothing is asked twice: each image is of a prompt and a seed of its own.
    asked = [tuple(sorted(each.fields.items())) for each in server.asked]
    drawn = {(item["result"]["prompt"], item["result"]["seed"]) for item in await items(gateway, run)}
    assert len(asked) == len(drawn)


async def items(gateway: FakeGateway, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await read(gateway, run, "/items?limit=500"))["items"]
    return found
