"""The five services as Serve applications: names, import paths, routes, the config file and its check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from counterpose_core.contract.field_errors import sentence
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
    of_suite = load_suite(settings.suite, settings).services
    return tuple(service for service in SERVICES if service in of_suite)


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


def config_problems(text: str) -> list[str]:
    """Return everything that is wrong with a Serve config that somebody wrote or changed, one sentence each.

    Serve itself finds an unknown setting only on the cluster, after other applications of the same config
    were deployed, and takes an unknown application for one more.

    Args:
        text: the config in YAML, as ``counterpose-services config`` prints it or ``serveConfigV2`` holds it.
    """
    # Imported for this verb alone: it takes seconds.
    from ray.serve.schema import ServeDeploySchema

    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return [f"it is not YAML: {str(error).splitlines()[0]}"]
    if not isinstance(config, Mapping):
        return [
            f"it is not a Serve config but {type(config).__name__}; `counterpose-services config` prints one"
        ]
    applications = config.get("applications")
    if not isinstance(applications, list) or not all(isinstance(each, Mapping) for each in applications):
        return ["it has no list `applications`; print one by `counterpose-services config`"]
    problems = [problem for each in applications for problem in _application(each)]
    counted = Counter(str(each.get("name")) for each in applications)
    problems += [f"the application {name!r} is there {n} times" for name, n in counted.items() if n > 1]
    try:
        ServeDeploySchema.model_validate(config)
    except ValidationError as error:
        problems += list(_refusals("", error))
    return problems


def _application(given: Mapping[str, Any]) -> Iterator[str]:
    name = given.get("name")
    if name not in SERVICES:
        yield f"{name!r} is no service; the services are {', '.join(SERVICES)}"
        return
    for field, expected in (("import_path", import_path(name)), ("route_prefix", route_prefix(name))):
        if given.get(field) != expected:
            yield f"{name}: {field} is {given.get(field)!r}; write {expected!r}"
    try:
        ServiceSettings.model_validate(given.get("args") or {})
    except ValidationError as error:
        yield from _refusals(f"{name}: args", error)


def _refusals(place: str, error: ValidationError) -> Iterator[str]:
    for each in error.errors(include_url=False):
        where = "/".join(str(part) for part in each["loc"])
        yield f"{place}/{where}: {sentence(each)}" if place else f"{where}: {sentence(each)}"
