"""Runs of a classifier that chats: its bug is found, what names no label is counted, its account is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.images.codecs import Pixels
from counterpose_core.suite import Suite, load_suite
from fakes.chat_gateway import SeenWorld, chat_fake_suite, chat_gateway, work_accounted
from fakes.chat_server import ScriptedChat, chat_suite
from fakes.gateway import FakeGateway
from fakes.page_runs import BODY
from fakes.pages import text_of

ASKED = BODY | {"classifiers": ["chat:scene"], "preservation": "none"}
SORRY, BOTH, LONG = "I'm sorry, I can't help with that.", "both", "word " * 2000


async def run_of(gateway: FakeGateway, **changes: Any) -> tuple[str, dict[str, Any]]:
    """A run's address and its summary, worked off."""
    made = await gateway.http.post("/v1/stress-tests", json=ASKED | changes)
    assert made.status_code == 202, made.text
    await work_accounted(gateway)
    address = f"/v1/runs/{made.json()['id']}"
    return address, (await gateway.http.get(f"{address}/summary")).json()


def refusing(seen: SeenWorld, said: str, *, of: str) -> ScriptedChat:
    """A model without a bug that says this of one class's images."""

    def words(pixels: Pixels) -> str | None:
        return said if seen.of(pixels).label == of else None

    def sees(pixels: Pixels, labels: Sequence[str]) -> list[float]:
        return [4.0 * (label == seen.of(pixels).label) for label in labels]

    return ScriptedChat(sees=sees, words=words)


async def test_a_planted_bug_of_a_model_that_chats_is_found_and_paid_for(tmp_path: Path) -> None:
    seen = SeenWorld()
    server = ScriptedChat(sees=seen.sees)
    async with chat_gateway(tmp_path, server, seen) as gateway:
        await gateway.upload("demo", 12)
        address, summary = await run_of(gateway)
        report = text_of((await gateway.http.get(f"{address}/report")).text)
    assert "once “on the grass” becomes “in the snow”" in summary["verdict"]
    found = [each for each in summary["insights"] if "snow" in str(each)]
    assert found
    assert summary["counts"]["done"] == summary["counts"]["planned"]
    # The baseline, and 20 of its images in three other orders, are of no run; its answers are kept for it.
    told = summary["spending"]["services"]["chat:scene"]
    assert told["calls"] + 48 + 3 * 20 == len(server.asked)
    assert told["input_tokens"] == 90 * told["calls"]
    assert "chat:scene" in report


@pytest.mark.parametrize(
    ("said", "code"), [(SORRY, "answer-refused"), (BOTH, "answer-off-list"), (LONG, "answer-unreadable")]
)
async def test_what_names_no_label_is_counted_and_never_wrong(tmp_path: Path, said: str, code: str) -> None:
    seen = SeenWorld()
    async with chat_gateway(tmp_path, refusing(seen, said, of="plate"), seen) as gateway:
        await gateway.upload("demo", 6)
        _, summary = await run_of(gateway)
    [told] = summary["unanswered"]
    share = told["outcomes"][code]
    assert (told["classifier"], list(told["outcomes"])) == ("chat:scene", [code])
    assert (told["of"], 4 * told["images"]) == (share["n"], share["n"])
    assert share["low"] < share["estimate"] == 0.25 < share["high"]
    # No item failed, and what was answered was answered rightly: no answer counts as a wrong one.
    assert summary["counts"]["failed"] == 0
    assert {each["drop"]["estimate"] for each in summary["models"].values()} == {0.0}


PRICES = {"vlm": {"usd_per_call": 0.01}}


async def test_a_run_stops_at_its_budget_and_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    seen = SeenWorld()
    server = ScriptedChat(sees=seen.sees)
    async with chat_gateway(tmp_path, server, seen) as gateway:
        await gateway.upload("demo", 4)
        free = await gateway.http.post(
            "/v1/stress-tests", json=ASKED | {"classifiers": ["steady"], "spending": {"usd": 1.0}}
        )
        assert (free.status_code, free.json()["errors"][0]["pointer"]) == (422, "/spending/usd")
        bounded = {"confirm": False, "spending": {"usd": 0.5, "prices": PRICES}}
        missing = await gateway.http.post("/v1/stress-tests", json=ASKED | {"spending": {"usd": 0.5}})
        assert missing.json()["code"] == "price-missing"
        address, summary = await run_of(gateway, **bounded)
        assert summary["spending"]["stopped"].startswith("stopped at its budget of $0.50")
        assert 0 < summary["spending"]["usd"] <= 0.5
        first = len(server.asked)
        resumed = await gateway.http.post(f"{address}/resume", json={"spending": {"usd": 9.0}})
        assert resumed.status_code == 200, resumed.text
        await work_accounted(gateway)
        summary = (await gateway.http.get(f"{address}/summary")).json()
    assert summary["counts"]["done"] == summary["counts"]["planned"]
    # Nothing is asked twice: the baseline's 16 images in four orders, and each image of the run's own.
    assert summary["spending"]["services"]["chat:scene"]["calls"] + 4 * 16 == len(server.asked) > first
    assert len({json.dumps(body) for body in server.asked}) == len(server.asked)


def of_operations(**changes: Any) -> dict[str, Any]:
    """A stress test of operations alone."""
    turned = {"operations": ["rotation", "upside-down"], "levels": [1, 3]}
    return {"dataset": "demo", "classifiers": ["chat:scene"], "seed": 3, "transforms": turned} | changes


async def test_a_dry_run_names_the_most_of_each_question(tmp_path: Path) -> None:
    seen = SeenWorld()
    suite = chat_fake_suite(scene=chat_suite(max_tokens=7), place=chat_suite(answers="text", model="other"))
    asked = ASKED | {"spending": {"prices": PRICES}}
    async with chat_gateway(tmp_path, ScriptedChat(sees=seen.sees), seen, suite) as gateway:
        most, usd, spent = await estimated_and_spent(gateway, asked, suite)
    assert most["output_tokens"] == 7 * most["calls"]
    assert usd == pytest.approx(0.01 * most["calls"])
    assert 0 < spent["calls"] <= most["calls"] <= 3 * spent["calls"]


async def test_operations_are_estimated_too_and_images_without_a_label_left_out(tmp_path: Path) -> None:
    seen = SeenWorld()
    suite = load_suite("photographs").model_copy(update={"chat": {"scene": chat_suite(answers="text")}})
    # It refuses a third of the images by their darkness, the unchanged ones among them.
    server = ScriptedChat(
        sees=lambda _, labels: [4.0 * (label == "boat") for label in labels],
        words=lambda pixels: SORRY if int(pixels.astype(int).sum()) % 3 == 0 else None,
    )
    async with chat_gateway(tmp_path, server, seen, suite) as gateway:
        await gateway.upload("demo", 4)
        most, _, spent = await estimated_and_spent(gateway, of_operations(), suite)
        run = gateway.ledger.runs.page().runs[0].id
        summary = (await gateway.http.get(f"/v1/runs/{run}/summary")).json()
    assert 0 < spent["calls"] <= most["calls"] <= 2 * spent["calls"]
    assert summary["counts"]["done"] == summary["counts"]["planned"] == 16
    [told] = summary["unanswered"]
    assert list(told["outcomes"]) == ["answer-refused"]
    assert 0 < told["images"] <= told["of"] == 16


async def estimated_and_spent(
    gateway: FakeGateway, asked: dict[str, Any], suite: Suite
) -> tuple[dict[str, Any], float | None, dict[str, Any]]:
    """The most by a dry run, its price, and what the run then spent."""
    if not gateway.world.shown:
        await gateway.upload("demo", 4)
    told = (await gateway.http.post("/v1/stress-tests/estimate", json=asked)).json()["spending"]
    made = await gateway.http.post("/v1/stress-tests", json=asked)
    assert made.status_code == 202, made.text
    await work_accounted(gateway, suite)
    summary = (await gateway.http.get(f"/v1/runs/{made.json()['id']}/summary")).json()
    assert list(told["services"]) == ["chat:scene"]
    return told["services"]["chat:scene"], told["usd"], summary["spending"]["services"]["chat:scene"]


async def test_a_run_tells_the_effect_of_the_order_of_the_labels(tmp_path: Path) -> None:
    seen = SeenWorld()
    # It sees boats and sleds, and takes the other two for what is listed first.
    hard = ("plate", "kite")

    def sees(pixels: Pixels, labels: Sequence[str]) -> list[float]:
        label = seen.of(pixels).label
        return [4.0 * (label not in hard and one == label) for one in labels]

    async with chat_gateway(tmp_path, ScriptedChat(sees=sees, first=1.0), seen) as gateway:
        await gateway.upload("demo", 6)
        address, summary = await run_of(gateway, confirm=False)
        report = text_of((await gateway.http.get(f"{address}/report")).text)
    [baseline] = summary["baseline"]
    order = baseline["order"]
    assert (order["orders"], order["changes"]["n"], order["changes"]["estimate"]) == (4, 20, 0.5)
    assert order["changes"]["low"] < 0.5 < order["changes"]["high"]
    assert order["first"]["low"] > order["even"] == 0.25
    assert "its answer changes with the order of the labels on 50 % of 20 images" in report
