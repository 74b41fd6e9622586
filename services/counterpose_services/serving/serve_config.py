"""The five services as Serve applications: names, import paths, routes and the config file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterpose_core.suite import load_suite
from counterpose_services.settings import SERVICES, ServiceName, ServiceSettings

# Serve's proxy answers 408 in plain text; with this margin, our problem document comes first.
PROXY_MARGIN_S = 10.0


def import_path(service: ServiceName) -> str:
    """Return the import path of the builder of ``service``."""
    return f"counterpose_services.{service}.deployment:build"


def route_prefix(service: ServiceName) -> str:
    """Return the path prefix of ``service``."""
    return f"/{service}"


def services_of(settings: ServiceSettings) -> tuple[ServiceName, ...]:
    """Return the services that the suite has models for.

    Raises:
        UnknownModel: there is no such suite.
    """
    suite = load_suite(settings.suite)
    return tuple(service for service in SERVICES if getattr(suite, service) is not None)


def http_options(settings: ServiceSettings) -> dict[str, Any]:
    """Return the proxy's address and time-out; the service's own time-out is shorter."""
    patience = settings.request_timeout_s + PROXY_MARGIN_S
    return {"host": settings.host, "port": settings.port, "request_timeout_s": patience}


def serve_config(settings: ServiceSettings, services: Sequence[ServiceName] = SERVICES) -> dict[str, Any]:
    """Return the Serve config (``serve deploy``, RayService) of ``services``, without the secret."""
    # The proxy's address belongs to the cluster; in the arguments, a change would redeploy every replica.
    arguments = settings.model_dump(mode="json", exclude_unset=True, exclude={"host", "port", "secret"})
    return {
        "proxy_location": "HeadOnly",
        "http_options": http_options(settings),
        "applications": [
            {
                "name": service,
                "route_prefix": route_prefix(service),
                "import_path": import_path(service),
                "args": arguments,
            }
            for service in services
        ],
    }
