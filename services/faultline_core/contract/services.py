"""Bodies of ``/v1/services``, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

from typing import Literal

from faultline_core.contract.base import ResponseBody, ServiceHealth

CircuitState = Literal["closed", "open", "half-open"]
"""Whether calls pass: all of them, none for a while, or the next one as a trial."""


class ServiceState(ServiceHealth):
    """A service's own word on its state, and whether the gateway still calls it."""

    circuit: CircuitState = "closed"


class ServiceList(ResponseBody):
    """``GET /v1/services``: the five services as the gateway sees them."""

    services: list[ServiceState]


class Health(ResponseBody):
    """``GET /healthz``."""

    status: str
    version: str
