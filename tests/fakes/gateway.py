"""A whole gateway in one process: real ledger, store in memory, fake services, HTTP without a socket."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from fastapi import FastAPI

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.services import CircuitState, ServiceState
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.suite import Suite
from counterpose_core.tracing import Tracing
from counterpose_gateway.app import create_app
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.imports.importer import Importer
from counterpose_gateway.imports.storage import Storage
from counterpose_gateway.jobs.ray_cluster import Clusters
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.services.clients import SERVICE_NAMES
from counterpose_gateway.services.ports import Services
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.summaries.columns import ColumnFolder
from counterpose_gateway.ui import page_state
from counterpose_gateway.worker.planner import Planner
from counterpose_gateway.worker.worker import Worker
from fakes.ledgers import new_ledger
from fakes.ports import fake_services
from fakes.shared_world import SharedStore
from fakes.store import image
from fakes.world import CAPTION, CLASSES, FakeWorld, Shown, fake_suite

URL = "http://127.0.0.1:8080"


class FakeHealth:
    """All services are ready and their circuits closed, except those named."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.revisions: dict[str, str] = {}
        """Of the weights of each service that says which it has."""

    async def services(self) -> list[ServiceState]:
        """Return the state of each service."""
        circuits = self.circuits()
        return [
            ServiceState(
                service=name,
                ready=name not in self.down,
                circuit=circuits[name],
                model=ModelIdentity(id=name, revision=self.revisions[name])
                if name in self.revisions
                else None,
            )
            for name in SERVICE_NAMES
        ]

    def circuits(self) -> Mapping[str, CircuitState]:
        """Return the circuit state of each service."""
        return {name: "open" if name in self.down else "closed" for name in SERVICE_NAMES}


@dataclass
class FakeGateway:
    """The gateway's parts and a client that talks to it."""

    http: httpx.AsyncClient
    ledger: Ledger
    store: BlobStore
    world: FakeWorld
    services: Services
    health: FakeHealth
    settings: GatewaySettings
    app: FastAPI

    async def upload(self, name: str, per_class: int, classes: tuple[str, ...] = CLASSES) -> dict[str, Any]:
        """Make a dataset of fake images through the API."""
        await self.http.post("/v1/datasets", json={"name": name})
        sources = [self.source(label, number) for label in classes for number in range(per_class)]
        answer = await self.http.post(f"/v1/datasets/{name}/sources", json={"sources": sources})
        added: dict[str, Any] = answer.json()
        return added

    async def stress_test(self, body: dict[str, Any], path: str = "stress-tests") -> StressTestSummary:
        """Start a stress test, or a child of one by ``path``, work it off, and return its summary."""
        answer = await self.http.post(f"/v1/{path}", json=body)
        assert answer.status_code == 202, answer.text
        run = answer.json()["id"]
        await self.worker().work_off()
        assert self.ledger.runs.get(run).state == "completed"
        summary = await self.http.get(f"/v1/runs/{run}/summary")
        assert summary.status_code == 200, summary.text
        return StressTestSummary.model_validate_json(summary.content)

    def source(self, label: str, number: int) -> dict[str, str]:
        """Return the upload of an image that the fakes know."""
        shown = Shown(label, CAPTION.format(label=label))
        self.world.add(shown, number)
        content = base64.b64encode(image(shown, number)).decode()
        return {"filename": f"{label}-{number}.png", "label": label, "content_base64": content}

    def upload_of(self, content: bytes, label: str) -> dict[str, str]:
        """Return the upload of a file."""
        name = f"{hashlib.sha256(content).hexdigest()[:12]}.png"
        return {"filename": name, "label": label, "content_base64": base64.b64encode(content).decode()}

    def planner(self) -> Planner:
        """Return a planner of every kind of run."""
        return Planner(
            self.ledger,
            METHODS,
            lease_seconds=30.0,
            most_items=1_000_000,
            store=self.store,
        )

    def importer(self, dataset: str | None = None, **changes: int) -> Importer:
        """Return an importer that reads what the gateway's settings allow, of one dataset if it is named."""
        settings = self.settings.model_copy(update=changes)
        return Importer(
            self.ledger, self.store, self.storage(), Quotas.of(settings), lease_seconds=30.0,
            most_shards=settings.max_import_shards, dataset=dataset,
        )  # fmt: skip

    def storage(self) -> Storage:
        """Return what reads the addresses that the gateway's settings allow."""
        return Storage(self.settings.import_from)

    def worker(self, services: Services | None = None, **changes: Any) -> Worker:
        """Return a worker over the same ledger and store."""
        options: dict[str, Any] = {
            "concurrency": 2,
            "lease_seconds": 30.0,
            "planner": self.planner(),
        } | changes
        return Worker(
            "worker", ledger=self.ledger, store=self.store, services=services or self.services, **options
        )


@asynccontextmanager
async def fake_gateway(
    folder: Path,
    clock: Callable[[], float] = time.time,
    *,
    ports: Callable[[FakeWorld], Services] = fake_services,
    suite: Suite | None = None,
    ledger: Ledger | None = None,
    store: BlobStore | None = None,
    columns: ColumnFolder | None = None,
    clusters: Clusters | None = None,
    tracing: Tracing | None = None,
    **settings: Any,
) -> AsyncIterator[FakeGateway]:
    """Open a gateway over ``ports`` with its state in ``folder``; the test may set the ledger's clock."""
    store, health = store or BlobStore(f"memory://{folder}/store"), FakeHealth()
    ledger = ledger or new_ledger(folder, clock)
    world = FakeWorld(store=SharedStore(store))
    services = ports(world)
    known = GatewaySettings.model_validate(settings)
    app = create_app(
        known,
        ledger=ledger,
        store=store,
        services=services,
        suite=suite or fake_suite(),
        health=health,
        columns=columns,
        clusters=clusters,
        tracing=tracing,
    )
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    # A list waits a second for headlines, and a loaded machine takes longer.
    patient = patch.object(page_state, "PATIENCE_SECONDS", 60.0)
    async with httpx.AsyncClient(transport=transport, base_url=URL) as http:
        with patient:
            yield FakeGateway(http, ledger, store, world, services, health, known, app)
    ledger.close()
