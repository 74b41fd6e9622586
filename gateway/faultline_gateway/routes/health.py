"""``/healthz``, ``/readyz`` and ``/metrics``: for those who run the gateway."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response

from faultline_core.contract.services import Health
from faultline_core.errors import BackendUnavailable
from faultline_gateway.metrics import CONTENT_TYPE
from faultline_gateway.parts import Parts
from faultline_gateway.version import VERSION

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> Health:
    """Say that the gateway is alive; this waits for nobody else."""
    return Health(status="ok", version=VERSION)


@router.get("/readyz")
async def readyz(parts: Parts) -> Health:
    """Say whether ledger and services can take a run."""
    # Any read will do: it raises where the ledger does not answer.
    await asyncio.to_thread(parts.ledger.active_runs)
    waiting = [found.service for found in await parts.health.services() if not found.ready]
    if waiting:
        raise BackendUnavailable(f"not ready: {', '.join(waiting)}")
    return Health(status="ready", version=VERSION)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(parts: Parts) -> Response:
    """Return the gateway's own counters and the cost of its runs in Prometheus' text format."""
    ledger = parts.ledger
    series = parts.metrics.exposition(ledger.active_runs(), parts.health.circuits(), ledger.total_cost())
    return Response(series, media_type=CONTENT_TYPE)
