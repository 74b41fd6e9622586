"""What the gateway stands on: services and classifiers, and whether it is alive and ready."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from counterpose_core.contract.classifiers import ClassifierList
from counterpose_core.contract.services import Health, ServiceList
from counterpose_core.errors import BackendUnavailable
from counterpose_gateway.routes.context import Context, GatewayContext
from counterpose_gateway.version import VERSION

router = APIRouter()


@router.get("/v1/classifiers", tags=["classifiers"])
async def list_classifiers(context: Context) -> ClassifierList:
    """List the classifiers that can be tested."""
    return await context.services.classifiers.list_classifiers()


@router.get("/v1/services", tags=["services"])
async def list_services(context: Context) -> ServiceList:
    """Return the state of each of the five services, as the gateway sees it, and the use of the store."""
    editor = context.suite.editor_part
    presets = [] if editor is None else sorted(editor.presets)
    own = context.suite.transforms
    return ServiceList(
        services=await context.health.services(),
        store=context.store_use,
        presets=presets,
        operations=[] if own is None else list(own.operations),
    )


@router.get("/healthz", tags=["health"])
async def healthz() -> Health:
    """Answer while the gateway is alive, whatever the state of the services."""
    return Health(status="ok", version=VERSION)


@router.get("/readyz", tags=["health"])
async def readyz(context: Context) -> Health:
    """Answer 200 when ledger, disks and the suite's services can take a run; 507 for a full disk, or 503."""
    # Any read will do: it raises if the ledger does not answer.
    await asyncio.to_thread(context.ledger.measurements.active_runs)
    await asyncio.to_thread(_require_room, context)
    states = await context.health.services()
    waiting = [found.service for found in states if found.in_suite and not found.ready]
    if waiting:
        raise BackendUnavailable(f"not ready: {', '.join(waiting)}; GET /v1/services says why")
    return Health(status="ready", version=VERSION)


def _require_room(context: GatewayContext) -> None:
    least = context.settings.least_free_bytes
    context.ledger.check_ready(least)
    context.store.require_room(least)
