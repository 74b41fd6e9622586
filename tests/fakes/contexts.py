"""The contexts that methods get outside of workers, over a test's ledger and store and the fake services."""

from __future__ import annotations

from counterpose_core.blobs import BlobStore
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.services.ports import Services
from counterpose_gateway.summaries.cache import RunCache
from fakes.ports import fake_services
from fakes.world import FakeWorld, fake_suite


def run_context(
    ledger: Ledger, store: BlobStore, *, services: Services | None = None, kept: int = 32
) -> RunContext:
    """A context that keeps ``kept`` summaries and allows a thousand items a run."""
    return RunContext(
        ledger=ledger,
        store=store,
        services=services or fake_services(FakeWorld()),
        suite=fake_suite(),
        cache=RunCache(kept),
        max_items_per_run=1000,
    )
