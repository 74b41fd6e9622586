"""A gateway over fake services on a real socket, in a process that can be killed at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_gateway.app import create_app
from counterpose_gateway.http.server import prepare_event_loop, server_of
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.settings import GatewaySettings
from fakes.gateway import FakeHealth
from fakes.ports import fake_services
from fakes.shared_world import SharedStore
from fakes.world import FakeWorld, fake_suite


def serve(url: str, folder: Path, port: int) -> None:
    """Serve until killed, as ``counterpose-gateway serve`` does."""
    asyncio.run(_serving(url, folder, GatewaySettings(port=port)))


async def _serving(url: str, folder: Path, settings: GatewaySettings) -> None:
    prepare_event_loop()
    store = BlobStore(str(folder / "store"))
    app = create_app(
        settings,
        ledger=Ledger(url),
        store=store,
        services=fake_services(FakeWorld(store=SharedStore(store))),
        suite=fake_suite(),
        health=FakeHealth(),
    )
    await server_of(app, settings).serve()
