"""A gateway over fake services on a real socket, with a worker and an ended run of every kind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.types import ASGIApp

from counterpose_core.contract.editor import GeneratedImage, GenerateItem, GenerateRequest
from counterpose_core.contract.webhooks import WebhookCreate
from counterpose_gateway.http.connection import HeaderLimits, http_protocol
from counterpose_gateway.services.ports import Services
from counterpose_gateway.worker.worker import Worker
from fakes.benchmarks import TokenEditor, benchmark_body, benchmark_services, token_of, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ray_jobs_api import NAME, FakeRayJobs, clusters_of
from fakes.world import CLASSES, FakeWorld

STRESS_TEST = {
    "dataset": "demo",
    "classifiers": ["steady", "leaning"],
    "edit_types": ["background"],
    "seed": 3,
}
WEBHOOK = "https://hooks.example.com/a"
MAX_ITEMS = 200
"""Most items of a run: each that the fuzzer creates is worked off, too."""


@dataclass(frozen=True)
class Known:
    """What the gateway has at the start, for requests that should find something."""

    runs: dict[str, list[str]]
    """Ended runs, by kind."""
    item: dict[str, str]
    """An item of one of them, by kind."""
    image: str
    cursors: dict[str, str]
    """The cursor of a listing's second page, by path."""
    jobs: list[str]
    baseline: str
    """A stress test of enough images for a gate."""
    webhook: str


@dataclass(frozen=True)
class Live:
    """A gateway that answers on a socket."""

    address: str
    known: Known
    image: str
    """An image in base64 that may be uploaded."""
    has_keys: bool = False
    """Whether it asks for a key."""


# With an edit of LANCE-R, which no threshold of a text filter drops: there is something to export under any.
BASELINE: dict[str, Any] = {
    "dataset": "wide", "classifiers": ["steady"], "edit_types": ["background"], "max_edits_per_image": 1,
    "lance_r_edits_per_image": 1, "confirm": False, "seed": 3,
}  # fmt: skip


BUG_HUNT: dict[str, Any] = {
    "classifiers": ["steady"], "labels": ["sled"], "budget": {"images": 70}, "held_out": 8, "winners": 1,
    "hypotheses": 2, "captions": 4,
}  # fmt: skip


ADVERSARIAL_DATASET: dict[str, Any] = {
    "classifiers": ["steady"], "images": 24, "baseline": 8, "samples": 16,
    # Every image fails by it, so that there is something to transfer.
    "criterion": {"name": "low-confidence", "below": 1.0}, "near_duplicates": None,
    "seeds": {"kind": "captions", "captions": [{"label": "sled", "text": "a photo of a sled"}]},
}  # fmt: skip


class AnyTokenEditor(TokenEditor):
    """Draws with tokens that a run learned, too, as a sled."""

    def make(self, request: GenerateRequest, item: GenerateItem) -> GeneratedImage:
        """The image of one prompt."""
        known = {token_of(name) for name in CLASSES} | {None}
        if item.token not in known:
            item = item.model_copy(update={"token": token_of("sled")})
        return super().make(request, item)


def token_services(world: FakeWorld) -> Services:
    """The services of the live gateway."""
    return benchmark_services(world, editor=AnyTokenEditor(world))


@asynccontextmanager
async def live_gateway(folder: Path) -> AsyncIterator[Live]:
    """Open the gateway with its state in ``folder``, and close it."""
    settings: dict[str, Any] = {"max_items_per_run": MAX_ITEMS, "import_from": ("memory://",)}
    # A cluster that takes every job; no launcher asks it to.
    clusters = clusters_of(FakeRayJobs(), folder)
    async with fake_gateway(folder, ports=token_services, clusters=clusters, **settings) as gateway:
        known = await seeded(gateway, gateway.worker())
        async with served(gateway, app_of(gateway)) as address:
            yield Live(address, known, gateway.source("sled", 99)["content_base64"])


async def seeded(gateway: FakeGateway, worker: Worker) -> Known:
    """Let the gateway have an ended run of every kind, or two, and all else that an address may name."""
    interface = await uploaded(gateway, 2)
    await gateway.http.post("/v1/datasets", json={"name": "uploads"})
    for seed in (1, 2):
        await _created(gateway, "/v1/stress-tests", STRESS_TEST | {"seed": seed})
        body = benchmark_body(interface, n=1, real=2, steps=20, seed=seed)
        await _created(gateway, "/v1/shift-benchmarks", body)
        await _created(gateway, "/v1/bug-hunts", BUG_HUNT | {"seed": seed})
        await _created(gateway, "/v1/adversarial-datasets", ADVERSARIAL_DATASET | {"seed": seed})
    await gateway.upload("wide", 12, CLASSES[:2])
    baseline = await _created(gateway, "/v1/stress-tests", BASELINE)
    await worker.work_off()
    for seed in (1, 2):
        body = {"baseline": baseline, "classifiers": ["leaning"], "seed": seed}
        await _created(gateway, "/v1/gates", body)
    for run in gateway.ledger.runs.page(kind="adversarial-dataset").runs:
        await _created(gateway, "/v1/transfers", {"source": run.id, "classifiers": ["steady"], "seed": 1})
    await worker.work_off()
    runs: dict[str, list[str]] = {}
    for run in gateway.ledger.runs.page(state="completed").runs:
        runs.setdefault(run.kind, []).append(run.id)
    item: dict[str, str] = {}
    cursors: dict[str, str] = {}
    for kind, (first, *_) in runs.items():
        page = await _got(gateway, f"/v1/runs/{first}/items?limit=1")
        item[kind] = page["items"][0]["id"]
        cursors[f"/v1/runs/{{{kind}}}/items"] = page["after"]
    cursors["/v1/runs"] = (await _got(gateway, "/v1/runs?limit=1"))["after"]
    for _ in range(2):
        of_job = {"kind": "stress-test", "request": STRESS_TEST}
        await _created(gateway, "/v1/jobs", {"cluster": NAME, "workers": 1, "run": of_job})
    cursors["/v1/jobs"] = (await _got(gateway, "/v1/jobs?limit=1"))["after"]
    jobs = [job.id for job in gateway.ledger.jobs.page().jobs]
    webhook = gateway.ledger.webhooks.create(WebhookCreate(url=WEBHOOK)).id
    return Known(
        runs, item, gateway.ledger.datasets.sources("demo")[0].image, cursors, jobs, baseline, webhook
    )


async def _created(gateway: FakeGateway, path: str, body: dict[str, Any]) -> str:
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    return str(answer.json()["id"])


async def _got(gateway: FakeGateway, path: str) -> dict[str, Any]:
    found: dict[str, Any] = (await gateway.http.get(path)).raise_for_status().json()
    return found


def app_of(gateway: FakeGateway) -> ASGIApp:
    """The application of a gateway."""
    transport = gateway.http._transport
    assert isinstance(transport, httpx.ASGITransport)
    return transport.app


@asynccontextmanager
async def served(gateway: FakeGateway, app: ASGIApp) -> AsyncIterator[str]:
    """Answer on a socket, and work on the runs; yield the address."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, access_log=False, log_config=None,
        http=http_protocol(HeaderLimits(65536, 100)), timeout_graceful_shutdown=2,
    )  # fmt: skip
    server, stop = uvicorn.Server(config), asyncio.Event()
    serving = asyncio.create_task(server._serve())
    working = asyncio.create_task(gateway.worker().work(stop))
    # Uvicorn has no event for it.
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(serving, working)
