"""Bodies of ``/v1/services``, ``/healthz`` and ``/readyz``."""

from typing import Literal

from pydantic import Field

from faultline_core.contract.base import ListBody, ResponseBody, ServiceHealth

CircuitState = Literal["closed", "open", "half-open"]
"""Whether the gateway calls a service: always, not for a while, or once as a trial."""


class ServiceState(ServiceHealth):
    """A service's report on its own state, and whether the gateway calls it."""

    circuit: CircuitState = Field(
        default="closed",
        description="`closed`: calls are made; `open`: calls are held back for a while after failures; "
        "`half-open`: the next call is a trial.",
    )


class ServiceList(ListBody[ServiceState]):
    """``GET /v1/services``: the five services as the gateway sees them."""

    services: list[ServiceState] = Field(description="One entry for each of the five services.")

    @property
    def _entries(self) -> list[ServiceState]:
        return self.services


class Health(ResponseBody):
    """``GET /healthz`` and ``GET /readyz``: state and version of the gateway."""

    status: str = Field(description="`ok` if the gateway is alive, `ready` if it can accept a run.")
    version: str = Field(description="Version of the gateway.")
