"""Config maps, secrets, keys, claims and volumes that are named: each is there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from manifests.operator import MadePod, made_pods
from manifests.rendering import K8S, Document, named


def stated_secrets() -> dict[str, set[str]]:
    """Return the keys of each secret that k8s/README.md tells to make."""
    text = (K8S / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    made: dict[str, set[str]] = {}
    for name, rest in re.findall(r"kubectl create secret generic (\S+) (.*)", text):
        made[name] = set(re.findall(r"--from-(?:literal|file)=([\w.-]+)=", rest))
    for name in re.findall(r"kubectl create secret tls (\S+)", text):
        made[name] = {"tls.crt", "tls.key"}
    return made


def references(found: list[Document]) -> Iterator[str]:
    """Yield every config map, secret, key, claim and volume that is named but not there."""
    maps = {named(each) for each in found if each["kind"] == "ConfigMap"}
    secrets, pods = stated_secrets(), made_pods(found)
    for pod in pods:
        yield from _volumes(pod, secrets)
        yield from _sources(pod, maps, secrets)
    claims = {named(each) for each in found if each["kind"] == "PersistentVolumeClaim"}
    volumes = [volume for pod in pods for volume in pod.spec["volumes"]]
    used = {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}
    for claim in used ^ claims:
        yield f"claim {claim} is not both made and used"
    for cluster in (each for each in found if each["kind"] == "RayCluster"):
        token = cluster["spec"]["authOptions"].get("secretName", "")
        if "auth_token" not in secrets.get(token, ()):
            yield f"cluster {named(cluster)}: no key auth_token in a secret {token}"
    yield from _monitors(found, secrets)
    for ingress in (each for each in found if each["kind"] == "Ingress"):
        for tls in ingress["spec"]["tls"]:
            if tls["secretName"] not in secrets:
                yield f"ingress: no secret {tls['secretName']}"


def _monitors(found: list[Document], secrets: dict[str, set[str]]) -> Iterator[str]:
    services = [each for each in found if each["kind"] == "Service"]
    for monitor in (each for each in found if each["kind"] == "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        asked = [each for each in services if wanted <= each["metadata"].get("labels", {}).items()]
        for endpoint in monitor["spec"]["endpoints"]:
            ports = [port["name"] for each in asked for port in each["spec"]["ports"]]
            if endpoint["port"] not in ports:
                yield f"monitor {named(monitor)} finds no port {endpoint['port']}"
            key = endpoint["authorization"]["credentials"]
            if key["key"] not in secrets.get(key["name"], ()):
                yield f"monitor {named(monitor)}: no key {key['key']} in a secret {key['name']}"


def _volumes(pod: MadePod, secrets: dict[str, set[str]]) -> Iterator[str]:
    volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}
    for volume in volumes.values():
        if (secret := volume.get("secret")) and secret["secretName"] not in secrets:
            yield f"{pod.origin}: no secret {secret['secretName']}"
    for container in pod.spec["containers"]:
        for mount in container["volumeMounts"]:
            if mount["name"] not in volumes:
                yield f"{pod.origin}: no volume {mount['name']}"


def _sources(pod: MadePod, maps: set[str], secrets: dict[str, set[str]]) -> Iterator[str]:
    known = {"configMapRef": maps, "secretRef": set(secrets)}
    for container in pod.spec["containers"]:
        for source in container.get("envFrom", ()):
            for kind, chosen in source.items():
                if chosen["name"] not in known[kind]:
                    yield f"{pod.origin}: no {kind} {chosen['name']}"
        for variable in (each for each in container.get("env", ()) if "valueFrom" in each):
            key = variable["valueFrom"]["secretKeyRef"]
            if key["key"] not in secrets.get(key["name"], ()):
                yield f"{pod.origin}: no key {key['key']} in a secret {key['name']}"
