"""What only operators need: metrics, and the log of changes. `ADMIN` is served where no other route is."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from fastapi import APIRouter, Query, Response

from counterpose_core.contract.base import ResponseBody
from counterpose_core.errors import Forbidden
from counterpose_gateway.http.metrics import CONTENT_TYPE
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from counterpose_gateway.routes.context import IN_DIGITS, Context

METRICS, ACCESS_LOG = APIRouter(), APIRouter()
ADMIN = (METRICS, ACCESS_LOG)


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
    series = context.metrics.exposition(measured, context.health.circuits(), context.store_use)
    return Response(series, media_type=CONTENT_TYPE)


@ACCESS_LOG.get("/access-log")
def access_log(context: Context, limit: Annotated[int, Query(ge=1, le=1000), IN_DIGITS] = 50) -> AccessLog:
    """Return what the holders of keys changed or tried to change, newest first."""
    return AccessLog(
        entries=[
            AccessLogEntry(
                at=each.at,
                holder=each.holder,
                tenant=each.tenant,
                method=each.method,
                path=each.path,
                status=each.status,
            )
            for each in context.ledger.access.log(limit)
        ]
    )
