"""Ports and addresses: each that is called, probed or routed has something that listens on it."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from counterpose_services.serving.serve_config import http_options
from counterpose_services.settings import ServiceSettings
from manifests.operator import HEAD_PORTS, addresses, container_ports, made_pods, selects
from manifests.rendering import Document, config_map, named, ray_service
from manifests.variables import services_settings

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def listening(found: list[Document]) -> Iterator[str]:
    """Yield every port that nothing listens on, and every address that is not there."""
    yield from _routes(found)
    yield from _probes(found)
    yield from _serve(found, services_settings(found))
    gateway, services = config_map(found, "counterpose-gateway"), config_map(found, "counterpose-services")
    address = gateway["COUNTERPOSE_SERVICES_URL"].removeprefix("http://")
    if (address if ":" in address else f"{address}:80") not in addresses(found):
        yield f"the gateway calls {address}, where nothing answers"
    for cluster in filter(None, gateway.get("COUNTERPOSE_CLUSTERS", "").split(",")):
        if (address := cluster.partition("=")[2].removeprefix("http://")) not in addresses(found):
            yield f"the gateway submits jobs to {address}, where nothing answers"
    for name in ("COUNTERPOSE_HOST", "COUNTERPOSE_SERVICES_HOST"):
        if (gateway | services)[name] != "0.0.0.0":
            yield f"{name} is not 0.0.0.0: no other pod reaches it"


def _routes(found: list[Document]) -> Iterator[str]:
    pods = made_pods(found)
    for service in (each for each in found if each["kind"] == "Service"):
        selector = {"matchLabels": service["spec"]["selector"]}
        targets = [container_ports(pod.spec) for pod in pods if selects(selector, pod.labels)]
        if not targets:
            yield f"service {named(service)} selects no pod"
        for port in service["spec"]["ports"]:
            if any(port["targetPort"] not in target for target in targets):
                yield f"service {named(service)}: no port {port['targetPort']}"
    for ingress in (each for each in found if each["kind"] == "Ingress"):
        for path in (path for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]):
            if path["backend"]["service"]["name"] != "gateway":
                yield f"ingress opens {path['backend']['service']['name']}"


def _probes(found: list[Document]) -> Iterator[str]:
    told = config_map(found, "counterpose-gateway")["COUNTERPOSE_PORT"]
    for pod in made_pods(found):
        ports = container_ports(pod.spec)
        if not pod.on_ray and ports.get("http", int(told)) != int(told):
            yield f"{pod.origin}: port http is not {told}"
        for container in pod.spec["containers"]:
            for probe in (container[name] for name in PROBES if name in container):
                if probe["httpGet"]["port"] not in ports:
                    yield f"{pod.origin}: a probe asks a port that is not there"
                if (path := probe["httpGet"]["path"]) != "/healthz":
                    yield f"{pod.origin}: a probe asks {path}, which depends on the services"


def _serve(found: list[Document], settings: ServiceSettings) -> Iterator[str]:
    """Serve's port is told in four places: the settings, the Serve config, the head and each worker."""
    serve = yaml.safe_load(ray_service(found)["spec"]["serveConfigV2"])
    if serve["http_options"] != http_options(settings):
        yield f"http_options are not {http_options(settings)}"
    for pod in (pod for pod in made_pods(found) if pod.serves):
        own = container_ports(pod.spec)
        if own.get("serve") != settings.port:
            yield f"{pod.origin}: the operator probes port serve, which is not {settings.port}"
        if pod.labels["ray.io/node-type"] == "head" and (missing := set(HEAD_PORTS) - set(own)):
            yield f"{pod.origin}: the head names some ports, but not {sorted(missing)}"
