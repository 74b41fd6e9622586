"""Proofs as a client asks for them: a run that has ended, its child runs, and what the API says of both."""

from __future__ import annotations

from typing import Any

import httpx

from fakes.gateway import FakeGateway

BODY: dict[str, Any] = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 0, "limit": 10, "confirm": False, "seed": 3,
}  # fmt: skip
CLASSES = ("sled", "boat")
PER_CLASS = 20


async def filled(gateway: FakeGateway, per_class: int = PER_CLASS, **changes: object) -> str:
    """The id of an ended run of one stage on five images of each class."""
    await gateway.upload("demo", per_class, CLASSES)
    answer = await gateway.http.post("/v1/stress-tests", json=BODY | changes)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    return str(answer.json()["id"])


async def prove(gateway: FakeGateway, run_id: str, number: int = 1, **body: object) -> httpx.Response:
    """Ask for a proof."""
    return await gateway.http.post(f"/v1/runs/{run_id}/findings/{number}/prove", json=body)


async def proven(gateway: FakeGateway, run_id: str, number: int = 1, **body: object) -> str:
    """The id of a child run that has ended."""
    answer = await prove(gateway, run_id, number, **body)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    return str(answer.json()["id"])


async def read(gateway: FakeGateway, run_id: str, path: str = "") -> dict[str, Any]:
    """What the API says of a run."""
    answer = await gateway.http.get(f"/v1/runs/{run_id}{path}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def items(gateway: FakeGateway, run_id: str) -> list[dict[str, Any]]:
    """All items of a run."""
    found: list[dict[str, Any]] = (await read(gateway, run_id, "/items?limit=1000"))["items"]
    return found
