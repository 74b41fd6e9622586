"""Bodies of ``/v1/services``, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

from faultline_core.contract.base import ResponseBody, ServiceHealth


class ServiceList(ResponseBody):
    """``GET /v1/services``: the five services as the gateway sees them."""

    services: list[ServiceHealth]


class Health(ResponseBody):
    """``GET /healthz``."""

    status: str
    version: str
