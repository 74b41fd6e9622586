"""A stress test whose images a server of others makes, to its report; the other services are fakes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import editor
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.suite import EditorSuite
from counterpose_gateway.services.ports import Services
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.settings import ServiceSettings
from fakes.gateway import FakeGateway, fake_gateway
from fakes.images_server import Asked, ImagesServer, Reply, images_server, obey, refusal
from fakes.page_runs import BODY
from fakes.pages import text_of
from fakes.ports import FakeEditor, fake_services
from fakes.world import CLASSES, FakeWorld, Shown, fake_suite

REFUSED = "sand"


class ServedEditor(FakeEditor):
    """Asks the editor's deployment, and tells the fakes what its images are meant to show."""

    def __init__(self, world: FakeWorld, deployment: EditorDeployment) -> None:
        super().__init__(world)
        self._deployment = deployment

    async def edit(self, request: editor.EditRequest) -> editor.EditResponse:
        """Edited by the server."""
        self.calls["edit"] += 1
        response = await self._deployment.edit(request)
        for item, outcome in zip(request.items, response.outcomes, strict=True):
            label = self.world.shown[item.image].label
            for made in [] if outcome.value is None else outcome.value.variants:
                self.world.shown[made.image] = Shown(label, item.edited_caption, made.strength)
        return response


def careful(asked: Asked, closing: threading.Event) -> Reply:
    """Obey, except where the prompt has a word that the server's policy refuses."""
    if REFUSED in str(asked.fields["prompt"]):
        return refusal(400, "moderation_blocked", "Rejected.")
    return obey(asked, closing)


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[tuple[FakeGateway, ImagesServer]]:
    """A gateway over such an editor."""
    store = BlobStore(str(tmp_path / "store"))
    with images_server(careful) as server:
        suite = EditorSuite.model_validate(
            {
                "model": "editor-1",
                "server": server.url,
                "resolution": 32,
                "default_preset": "api",
                "redraw": "api",
                "presets": {"api": {"backend": "images-api"}},
            }
        )
        settings = ServiceSettings.model_validate(
            {"store_url": str(tmp_path / "store"), "state_dir": tmp_path}
        )
        deployment = EditorDeployment(settings, ImagesApi(server.client(), suite, store))

        def ports(world: FakeWorld, deployment: EditorDeployment) -> Services:
            return fake_services(world, editor=ServedEditor(world, deployment))

        whole = fake_suite().model_copy(update={"editor_part": suite})
        async with fake_gateway(
            tmp_path, store=store, suite=whole, ports=partial(ports, deployment=deployment)
        ) as gateway:
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
