"""The five services as Serve applications: names, import paths, routes, and the config file that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from faultline_core.suite import load_suite
from faultline_services.settings import ServiceName, ServiceSettings

# Serve's proxy says 408 in plain text; given this much longer, it lets ours say it as a problem.
PROXY_MARGIN_S = 10.0
SERVICES: tuple[ServiceName, ...] = get_args(ServiceName)


def import_path(service: ServiceName) -> str:
    """Return where Serve finds the builder of ``service``."""
    return f"faultline_services.{service}.deployment:build"


def route_prefix(service: ServiceName) -> str:
    """Return the path below which ``service`` answers."""
    return f"/{service}"


def services_of(settings: ServiceSettings) -> tuple[ServiceName, ...]:
    """Return the services the suite has models for.

    Raises:
        UnknownModel: there is no such suite.
    """
    suite = load_suite(settings.suite)
    return tuple(service for service in SERVICES if getattr(suite, service) is not None)


def http_options(settings: ServiceSettings) -> dict[str, Any]:
    """Return where the one proxy listens, and how long it waits; the service says first that it is late."""
    patience = settings.request_timeout_s + PROXY_MARGIN_S
    return {"host": settings.host, "port": settings.port, "request_timeout_s": patience}


def serve_config(settings: ServiceSettings, services: Sequence[ServiceName] = SERVICES) -> dict[str, Any]:
    """Return the Serve config (``serve deploy``, RayService) of ``services``; the secret is never in it."""
    # Where the proxy listens is the cluster's affair; a replica that read it would be redeployed for it.
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
