"""Bodies of ``/v1/services``, ``/healthz`` and ``/readyz``."""

from typing import Literal

from counterpose_core.contract.base import ListBody, ResponseBody, ServiceHealth

CircuitState = Literal["closed", "open", "half-open"]
"""Whether the gateway calls a service: always, not for a while, or once as a trial."""


class ServiceState(ServiceHealth):
    """A service's report on its own state, and whether the gateway calls it."""

    circuit: CircuitState = "closed"
    """`closed`: calls are made; `open`: calls are held back for a while after failures; `half-open`: the next
    call is a trial."""
    in_suite: bool = True
    """Whether the suite has this service; a method that needs one that it has not is refused."""


class StoreUse(ResponseBody):
    """What the store keeps that can be computed again, such as inversions, and what its budget took away."""

    budget_bytes: int | None = None
    """Most bytes that are kept, or null if there is no budget."""
    derived_bytes: int = 0
    """Bytes that are kept, as last looked at."""
    evictions: int = 0
    """Files that this gateway evicted since it started."""
    evicted_bytes: int = 0
    """Bytes of these files."""


class ServiceList(ListBody[ServiceState]):
    """``GET /v1/services``: the five services as the gateway sees them."""

    services: list[ServiceState]
    """One entry for each of the five services."""
    store: StoreUse | None = None
    """What the store keeps that can be computed again, or null if it is not on a local disk."""
    presets: list[str] = []
    """Names of the suite's editor presets, which a stress test's `preset` takes."""
    operations: list[str] = []
    """Operations on images that a stress test of the suite carries out where it names none; empty if the
    suite has none."""

    @property
    def _entries(self) -> list[ServiceState]:
        return self.services


class Health(ResponseBody):
    """``GET /healthz`` and ``GET /readyz``: state and version of the gateway."""

    status: str
    """`ok` if the gateway is alive, `ready` if it can accept a run."""
    version: str
    """Version of the gateway."""
