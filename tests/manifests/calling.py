"""What pods call: the database, the store, names, the Kubernetes API; and what nobody may call."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from manifests.operator import MadePod, calls, made_pods
from manifests.rendering import Document, config_map, named, ray_service

OUTSIDE = ("203.0.113.9", "2001:db8::9")
INSIDE = ("10.0.0.9", "100.64.0.9", "172.31.0.9", "192.168.0.9", "fd00::9")
METADATA = ("169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "64:ff9b::a9fe:a9fe")
"""Where clouds tell a machine its credentials."""
HTTPS, NAMES, POSTGRESQL, KUBERNETES, REDIS = 443, 53, 5432, 6443, 6379


def calling(found: list[Document]) -> Iterator[str]:
    """Yield what a pod calls and may not, and what it may call without need."""
    remote = "://" in config_map(found, "counterpose-gateway")["COUNTERPOSE_STORE_URL"]
    autoscaled = _autoscaled(found)
    for pod in made_pods(found):
        needed = {NAMES: "names"}
        if pod.on_ray or remote:
            needed[HTTPS] = "what it fetches by HTTPS"
        if "COUNTERPOSE_DATABASE_URL" in _variables(pod):
            needed[POSTGRESQL] = "PostgreSQL"
        if pod.origin in autoscaled:
            needed[KUBERNETES] = "the Kubernetes API"
        yield from _wrong(found, pod, needed)


def _wrong(found: list[Document], pod: MadePod, needed: dict[int, str]) -> Iterator[str]:
    for port, address in itertools.product((HTTPS, NAMES, POSTGRESQL, KUBERNETES, REDIS), OUTSIDE + INSIDE):
        may = calls(found, pod.labels, address, port, "UDP" if port == NAMES else "TCP")
        # HTTPS is the internet's, and the Kubernetes API is near, by the same port or its own.
        wanted = port in needed
        if address in INSIDE and port == HTTPS:
            wanted = KUBERNETES in needed
        if address in OUTSIDE and port == KUBERNETES:
            wanted = False
        if wanted and not may:
            yield f"{pod.origin} does not reach {needed[port]}"
        if may and not wanted:
            yield f"{pod.origin} reaches port {port} of {address} without need"
    for port in (HTTPS, POSTGRESQL, KUBERNETES, REDIS):
        # Without names: some clouds answer those at the same address.
        if any(calls(found, pod.labels, address, port) for address in METADATA):
            yield f"{pod.origin} reaches the cloud's metadata"


def _autoscaled(found: list[Document]) -> set[str]:
    """Return the heads that ask Kubernetes for nodes."""
    services = ray_service(found)
    clusters = {named(services): services["spec"]["rayClusterConfig"]}
    clusters |= {named(each): each["spec"] for each in found if each["kind"] == "RayCluster"}
    return {f"{name}/headgroup" for name, config in clusters.items() if config.get("enableInTreeAutoscaling")}


def _variables(pod: MadePod) -> set[str]:
    return {each["name"] for container in pod.spec["containers"] for each in container.get("env", ())}
