"""A stress test whose images a server of others makes, to its report; the other services are fakes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.served_images import ServedImage
from fakes.gateway import FakeGateway
from fakes.images_gateway import images_gateway
from fakes.images_server import Asked, ImagesServer, Reply, obey, refusal
from fakes.page_runs import BODY
from fakes.pages import text_of
from fakes.world import CLASSES

REFUSED = "sand"


def careful(asked: Asked, closing: threading.Event) -> Reply:
    """Obey, except where the prompt has a word that the server's policy refuses."""
    if REFUSED in str(asked.fields["prompt"]):
        return refusal(400, "moderation_blocked", "Rejected.")
    return obey(asked, closing)


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[tuple[FakeGateway, ImagesServer]]:
    """A gateway over such an editor."""
    async with images_gateway(tmp_path, careful) as (gateway, server):
        await gateway.upload("demo", 8)
        yield gateway, server


async def test_a_stress_test_runs_on_a_server_of_images_to_its_report(
    run: tuple[FakeGateway, ImagesServer],
) -> None:
    gateway, server = run
    created = await gateway.http.post("/v1/stress-tests", json=BODY)
    assert created.status_code == 202, created.text
    address = f"/v1/runs/{created.json()['id']}"
    await gateway.worker(concurrency=1).work_off()
    assert (await gateway.http.get(address)).json()["state"] == "completed"
    items: list[dict[str, Any]] = (await gateway.http.get(f"{address}/items", params={"limit": 500})).json()[
        "items"
    ]
    assert {item["state"] for item in items} == {"done", "filtered"}

    refused = [item for item in items if item["state"] == "filtered"]
    assert Counter(item["reason"] for item in refused) == {"policy": len(refused)}
    assert all(f"127.0.0.1:{server.port}" in item["detail"] for item in refused)
    summary = (await gateway.http.get(f"{address}/summary")).json()
    assert summary["dropped"]["policy"] == len(refused) > 0

    host = f"127.0.0.1:{server.port}"
    for kind in ("reconstruction", "edit"):
        results = [item["result"] for item in items if item["kind"] == kind and item["state"] == "done"]
        assert results
        for result in results:
            served = ServedImage.model_validate(result["served"])
            assert (served.server, served.template, served.seed) == (host, "both-captions", None)
            assert (served.noise_db is not None) == (kind == "reconstruction")
            assert result["preset"]["backend"] == "images-api"
    images = [item["result"]["image"] for item in items if item["kind"] == "confirmation" and item["result"]]
    assert len(set(images)) == len(images) > 0

    report = (await gateway.http.get(f"{address}/report")).text
    told = text_of(report.partition('id="configuration"')[0])
    assert "Answers changed by unchanged edit" in told
    assert "reconstruct" not in told.lower()


async def test_what_a_server_cannot_do_is_refused_before_it_is_asked(
    run: tuple[FakeGateway, ImagesServer],
) -> None:
    gateway, server = run
    strength = await gateway.http.post("/v1/stress-tests", json=BODY | {"strength": [0.5]})
    assert "lacks 'levels'; leave strength out" in strength.json()["detail"]
    hunt = await gateway.http.post(
        "/v1/bug-hunts", json={"classifiers": ["leaning"], "labels": CLASSES, "seed": 3}
    )
    assert "lacks 'draw', which the method 'bug-hunt' needs" in hunt.json()["detail"]
    assert server.asked == []
