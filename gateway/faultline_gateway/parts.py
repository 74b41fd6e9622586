"""What the routes are given: the gateway's parts, put together once in `app`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Header, Query, Request

from faultline_core.blobs import BlobStore
from faultline_core.contract.base import IDEMPOTENCY_HEADER
from faultline_core.contract.services import CircuitState, ServiceState
from faultline_core.suite import Suite
from faultline_gateway.benchmark_results import BenchmarkResults
from faultline_gateway.ledger import Ledger
from faultline_gateway.metrics import Metrics
from faultline_gateway.ports import Services
from faultline_gateway.settings import GatewaySettings
from faultline_gateway.summaries import Summaries


class HealthReader(Protocol):
    """Knows how the services are.

    ready = all(service.ready for service in await health.services())
    """

    async def services(self) -> list[ServiceState]:
        """Return the state of each service."""
        ...

    def circuits(self) -> Mapping[str, CircuitState]:
        """Return whether this process still calls each service, asking none."""
        ...


@dataclass(frozen=True, kw_only=True)
class GatewayParts:
    """Everything a route may touch."""

    settings: GatewaySettings
    ledger: Ledger
    store: BlobStore
    services: Services
    suite: Suite
    health: HealthReader
    metrics: Metrics
    summaries: Summaries
    benchmarks: BenchmarkResults


def _parts_of(request: Request) -> GatewayParts:
    parts = request.app.state.parts
    assert isinstance(parts, GatewayParts)  # `create_app` put them there
    return parts


Parts = Annotated[GatewayParts, Depends(_parts_of)]
IdempotencyKey = Annotated[
    str | None,
    Header(alias=IDEMPOTENCY_HEADER, min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$"),
]
After = Annotated[str | None, Query(max_length=512)]
PageSize = Annotated[int, Query(ge=1, le=1000)]
