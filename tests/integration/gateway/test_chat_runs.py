"""Runs of a classifier that chats: its bug is found, what names no label is counted, its account is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes.chat_gateway import SeenWorld, chat_gateway, work_accounted
from fakes.chat_server import ScriptedChat
from fakes.gateway import FakeGateway
from fakes.page_runs import BODY

ASKED = BODY | {"classifiers": ["chat:scene"], "preservation": "none"}


async def run_of(gateway: FakeGateway, **changes: Any) -> tuple[str, dict[str, Any]]:
    """A run's address and its summary, worked off."""
    made = await gateway.http.post("/v1/stress-tests", json=ASKED | changes)
    assert made.status_code == 202, made.text
    await work_accounted(gateway)
    address = f"/v1/runs/{made.json()['id']}"
    return address, (await gateway.http.get(f"{address}/summary")).json()


async def test_a_planted_bug_of_a_model_that_chats_is_found(tmp_path: Path) -> None:
    seen = SeenWorld()
    server = ScriptedChat(sees=seen.sees)
    async with chat_gateway(tmp_path, server, seen) as gateway:
        await gateway.upload("demo", 12)
        address, summary = await run_of(gateway)
        print(summary["verdict"], summary["counts"], summary["spending"], summary.get("unanswered"))
        assert 0
