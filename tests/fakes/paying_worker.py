"""A process that works on a run whose editor asks a server of images, and can be killed at any moment."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.worker.planner import Planner
from counterpose_gateway.worker.spending import LedgerAccounts
from counterpose_gateway.worker.worker import Worker
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.outbound.calls import AnswerLimits, outbound_client
from counterpose_services.settings import ServiceSettings
from fakes.images_gateway import ServedEditor, accounted
from fakes.ports import fake_services
from fakes.shared_world import KeptShown, SharedStore
from fakes.suite_servers import images_suite
from fakes.world import FakeWorld

LEASE_SECONDS = 1_000.0


def pay_until_ended(url: str, folder: Path, run_id: str, server: str, number: int) -> None:
    """Work until the run has ended; leases of processes of a smaller number have run out by its clock."""
    ahead = 2.0 * LEASE_SECONDS * number
    ledger = Ledger(url, clock=lambda: time.time() + ahead)
    store, suite = BlobStore(str(folder / "store")), images_suite(server)
    world = FakeWorld(store=SharedStore(store), shown=KeptShown(folder / "shown"))
    limits = AnswerLimits(30.0, 2**22)
    client = OpenAIServer(server, outbound_client(limits), limits=limits, in_flight=4)
    settings = ServiceSettings.model_validate({"store_url": str(folder / "store"), "state_dir": folder})
    deployment = EditorDeployment(settings, ImagesApi(client, suite.editor, store))
    services = fake_services(world, editor=ServedEditor(world, deployment))
    planner = Planner(ledger, METHODS, lease_seconds=LEASE_SECONDS, most_items=100_000, store=store)
    worker = Worker(
        f"process-{number}", ledger=ledger, store=store,
        services=accounted(services, LedgerAccounts(ledger), suite), concurrency=1,
        lease_seconds=LEASE_SECONDS, planner=planner,
    )  # fmt: skip
    while ledger.runs.get(run_id).state not in FINAL_RUN_STATES:
        asyncio.run(worker.work_off())
