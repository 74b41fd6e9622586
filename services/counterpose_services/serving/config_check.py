"""The check of a Serve config that somebody wrote or changed, before it is deployed.

Serve itself finds an unknown setting only on the cluster, after other applications of the same config were
deployed, and takes an unknown application for one more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from counterpose_services.serving.serve_config import import_path, route_prefix
from counterpose_services.settings import SERVICES, ServiceSettings


def config_problems(text: str) -> list[str]:
    """Return everything that is wrong with a Serve config in YAML, one sentence each.

    Args:
        text: the config, as ``counterpose-services config`` prints it or as ``serveConfigV2`` holds it.
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
    for each in error.errors(include_url=False, include_input=False):
        where = "/".join(str(part) for part in each["loc"])
        yield f"{place}/{where}: {each['msg']}" if place else f"{where}: {each['msg']}"
