"""The environment of a pod, read by the settings of the program that runs in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from unittest import mock

from counterpose_core.suite_servers import SuiteServers
from counterpose_gateway.settings import PREFIX, GatewaySettings, settings_from
from counterpose_gateway.settings import variable as gateway_variable
from counterpose_services.service_options import ServiceOptions
from counterpose_services.settings import SERVICES, ServiceSettings, own_variable
from counterpose_services.settings import variable as services_variable
from manifests.operator import made_pods
from manifests.rendering import ROOT, Document, config_map

OTHERS = re.compile(r"RAY_[A-Za-z_]+|HF_HOME|HOME")
"""Variables of the libraries, not ours."""
STATE_DIR = f"{PREFIX}STATE_DIR"
GATEWAY_VARIABLES = {STATE_DIR, *(gateway_variable(field) for field in GatewaySettings.model_fields)}
SERVICE_VARIABLES = {
    services_variable(field) for field in ServiceSettings.model_fields if field not in SERVICES
} | {own_variable(service, field) for service in SERVICES for field in ServiceOptions.model_fields}
SHARED = (
    *("COUNTERPOSE_SECRET_FILE", "COUNTERPOSE_STORE_URL", "COUNTERPOSE_SUITE"),
    *(gateway_variable(field) for field in SuiteServers.model_fields),
)


def services_settings(found: list[Document]) -> ServiceSettings:
    """Return the settings that the services read from their config map."""
    with mock.patch.dict(os.environ, config_map(found, "counterpose-services"), clear=True):
        return ServiceSettings.model_validate({})


def gateway_settings(found: list[Document], **secrets: str) -> GatewaySettings:
    """Return the settings that the gateway reads from its config map and ``secrets``."""
    return settings_from(config_map(found, "counterpose-gateway") | secrets)


def variables(found: list[Document]) -> Iterator[str]:
    """Yield variables that no program reads, shared ones that differ, and a store that no package reads."""
    gateway, services = config_map(found, "counterpose-gateway"), config_map(found, "counterpose-services")
    told = [*gateway, *_from_secrets(found)]
    unknown = [name for name in told if name not in GATEWAY_VARIABLES]
    unknown += [name for name in services if name not in SERVICE_VARIABLES and not OTHERS.fullmatch(name)]
    yield from (f"{name} is no setting" for name in unknown)
    differing = [name for name in SHARED if gateway.get(name) != services.get(name)]
    yield from (f"{name} differs between gateway and services" for name in differing)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    if gateway["COUNTERPOSE_STORE_URL"].startswith("s3://") and "\ns3fs==" not in lock:
        yield "no package in the lock reads s3://"


def _from_secrets(found: list[Document]) -> list[str]:
    """Return the variables whose values are in secrets, of every pod that reads the gateway's settings."""
    containers = [
        container for pod in made_pods(found) if not pod.serves for container in pod.spec["containers"]
    ]
    return [
        variable["name"]
        for container in containers
        for variable in container.get("env", ())
        if "valueFrom" in variable
    ]


def ledger(found: list[Document]) -> Iterator[str]:
    """Yield a ledger that several processes cannot share."""
    for document in (each for each in found if each["kind"] == "Deployment"):
        spec = document["spec"]["template"]["spec"]
        alone = document["spec"].get("replicas") == 1 and document["spec"]["strategy"]["type"] == "Recreate"
        for container in spec["containers"]:
            told = {variable["name"] for variable in container.get("env", ())}
            if "COUNTERPOSE_DATABASE_URL" not in told and not (alone and _kept(spec, container)):
                yield f"{container['name']}: no PostgreSQL, and the SQLite file is not its own"


def _kept(spec: Document, container: Document) -> bool:
    """Return whether the state's folder outlives its pod."""
    claimed = {volume["name"] for volume in spec["volumes"] if "persistentVolumeClaim" in volume}
    return any(
        mount["mountPath"] == "/var/lib/counterpose" and mount["name"] in claimed
        for mount in container["volumeMounts"]
    )
