"""A gateway over fake services on a real socket, in a process that can be killed at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvicorn

from fakes.gateway import FakeHealth, SharedStore
from fakes.ports import fake_services
from fakes.world import FakeWorld, fake_suite
from faultline_core.blobs import BlobStore
from faultline_gateway.app import create_app
from faultline_gateway.ledger import Ledger
from faultline_gateway.settings import GatewaySettings


def serve(url: str, folder: Path, port: int) -> None:
    """Serve until killed."""
    store = BlobStore(str(folder / "store"))
    app = create_app(
        GatewaySettings(),
        ledger=Ledger(url),
        store=store,
        services=fake_services(FakeWorld(store=SharedStore(store))),
        suite=fake_suite(),
        health=FakeHealth(),
    )
    config = uvicorn.Config(app, host="127.0.0.1", port=port, access_log=False, log_config=None)
    asyncio.run(uvicorn.Server(config).serve())
