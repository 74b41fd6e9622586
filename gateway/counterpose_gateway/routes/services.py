"""What the gateway stands on and came to: services, classifiers, health, metrics, use, the log of changes."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Annotated

from fastapi import APIRouter, Query, Response

from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.classifiers import ClassifierList
from counterpose_core.contract.services import Health, ServiceList
from counterpose_core.contract.usage import Usage
from counterpose_core.errors import BackendUnavailable, Forbidden
from counterpose_gateway.http.metrics import CONTENT_TYPE
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from counterpose_gateway.routes.context import IN_DIGITS, Context, GatewayContext
from counterpose_gateway.version import VERSION

router = APIRouter()
METRICS, ACCESS_LOG = APIRouter(), APIRouter()
"""What operators need: where they have a listener, this is served there, and no other route is."""


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


@router.get("/v1/usage", tags=["usage"])
def get_usage(context: Context) -> Usage:
    """Return what the runs of the caller's tenant have used this month, and its quota."""
    return context.ledger.access.usage()


class AccessLogEntry(ResponseBody):
    """A change that the holder of a key asked for."""

    at: dt.datetime
    """When it was answered."""
    holder: str
    """Id of the key, or `settings`."""
    tenant: str
    """Whose objects the key opens."""
    method: str
    """Method of the request."""
    path: str
    """Its path."""
    status: int
    """Status of the answer."""


class AccessLog(ResponseBody):
    """Changes that holders of keys asked for, newest first."""

    entries: list[AccessLogEntry]
    """The newest entries."""


@METRICS.get(
    "/metrics", tags=["health"], response_class=Response, responses={200: {"content": {"text/plain": {}}}}
)
def metrics(context: Context) -> Response:
    """Return what the gateway, the workers and the runs of all tenants came to, in the Prometheus format."""
    if context.tenant != DEFAULT_TENANT:
        raise Forbidden(
            f"the metrics are of all tenants, and this key is of the tenant {context.tenant!r}; "
            f"ask with a key of the tenant {DEFAULT_TENANT!r}"
        )
    measured = context.ledger.measurements.read()
    series = context.metrics.exposition(
        measured, context.health.circuits(), context.store_use, context.room.uses
    )
    return Response(series, media_type=CONTENT_TYPE)


@ACCESS_LOG.get("/access-log")
def access_log(context: Context, limit: Annotated[int, Query(ge=1, le=1000), IN_DIGITS] = 50) -> AccessLog:
    """Return what the holders of keys changed or tried to change, newest first."""
    entries = context.ledger.access.log(limit)
    return AccessLog(entries=[AccessLogEntry.model_validate(each, from_attributes=True) for each in entries])
