"""Proofs through ledger and API: child runs of one finding, what they join, and what refuses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fakes.gateway import FakeGateway, fake_gateway

BODY = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 0, "limit": 10, "seed": 3,
}  # fmt: skip
CLASSES = ("sled", "boat")
PER_CLASS = 40


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path) as opened:
        for label in CLASSES:
            await opened.upload("demo", PER_CLASS, (label,))
        yield opened


async def ended(gateway: FakeGateway, **changes: object) -> str:
    answer = await gateway.http.post("/v1/stress-tests", json=BODY | changes)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    return str(answer.json()["id"])


async def test_x(gateway: FakeGateway) -> None:
    run_id = await ended(gateway)
    before = (await gateway.http.get(f"/v1/stress-tests/{run_id}/summary")).json()
    print(before["verdict"], before["confirmation"], before["findings"])
    for n in (1, 2):
        told = await gateway.http.get(f"/v1/stress-tests/{run_id}/findings/{n}")
        body = told.json()
        body["told"]["pairs"] = body["finding"]["pairs"] = None
        print(body)
    answer = await gateway.http.post(f"/v1/stress-tests/{run_id}/findings/1:prove", json={"images": 8})
    print(answer.status_code, answer.text)
    await gateway.worker().work_off()
    child = answer.json()["id"]
    print((await gateway.http.get(f"/v1/stress-tests/{child}")).json()["state"])
    print(
        Counter(
            (item["kind"], item["state"], item["stage"])
            for item in (await gateway.http.get(f"/v1/stress-tests/{child}/items?limit=1000")).json()["items"]
        )
    )
    print((await gateway.http.get(f"/v1/stress-tests/{child}/summary")).json()["verdict"])
    told = (await gateway.http.get(f"/v1/stress-tests/{run_id}/findings/1")).json()
    told["told"]["pairs"] = told["finding"]["pairs"] = told["pairs"] = None
    print(told)
    rep = await gateway.http.get(f"/v1/stress-tests/{child}/report")
    Path("/tmp/child.html").write_text(rep.text)
    print(rep.status_code, len(rep.text))
    rep = await gateway.http.get(f"/v1/stress-tests/{child}/export")
    print(rep.status_code)
    assert 0
