"""What KubeRay 1.7.0 makes of a RayService, by its source (paths under ``ray-operator/controllers/ray``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from manifests.rendering import Document, named

# utils/constant.go; the operator adds the port of metrics where a container names none.
DEFAULT_METRICS_PORT = 8080
# Probed by the kubelet (HTTPGet /api/healthz) since Ray 2.53, and open on every node.
AGENT_PORT = 52365
GATEWAY_PORT = 80
# utils/util.go: FindContainerPort falls back on Serve's own default.
DEFAULT_SERVE_PORT = 8000
# common/service.go: a head that names any port has only those that it names, another one has these.
HEAD_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "serve": DEFAULT_SERVE_PORT}
# The Helm chart's labels of the operator's pod (helm-chart/kuberay-operator/templates/_helpers.tpl).
OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
OURS, NAMESPACE_LABEL = "ours", "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class MadePod:
    """A pod: where it comes from, its labels, what it runs, and the ports on which it listens."""

    origin: str
    labels: dict[str, str]
    spec: Document
    ports: frozenset[int]

    @property
    def on_ray(self) -> bool:
        """Whether the operator made it."""
        return "ray.io/cluster" in self.labels

    @property
    def serves(self) -> bool:
        """Whether Serve may start replicas on it."""
        return self.on_ray and self.origin.startswith("services/")


def made_pods(found: list[Document]) -> list[MadePod]:
    """Return the pods of all documents, as the operator and Kubernetes would start them."""
    pods = []
    for document in found:
        if document["kind"] == "Deployment":
            template = document["spec"]["template"]
            ports = frozenset(container_ports(template["spec"]).values())
            pods.append(MadePod(named(document), template["metadata"]["labels"], template["spec"], ports))
        if document["kind"] == "RayService":
            pods += _ray_pods(document, document["spec"]["rayClusterConfig"], "-abcde")
        if document["kind"] == "RayCluster":
            pods += _ray_pods(document, document["spec"], "")
    return pods


def _ray_pods(service: Document, config: Document, suffix: str) -> list[MadePod]:
    groups = [("head", "headgroup", config["headGroupSpec"])]
    groups += [("worker", group["groupName"], group) for group in config["workerGroupSpecs"]]
    pods = []
    for kind, name, group in groups:
        template = group["template"]
        labels = {
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
            "ray.io/cluster": f"{named(service)}{suffix}",
            "ray.io/node-type": kind,
            "ray.io/group": name,
        } | template["metadata"]["labels"]
        ports = {"metrics": DEFAULT_METRICS_PORT, "agent": AGENT_PORT}
        own = container_ports(template["spec"])
        ports |= own or (HEAD_PORTS if kind == "head" else {})
        pods.append(MadePod(f"{named(service)}/{name}", labels, template["spec"], frozenset(ports.values())))
    return pods


def container_ports(spec: Document) -> dict[str, int]:
    """Return a pod's ports by name."""
    return {
        port["name"]: port["containerPort"]
        for container in spec["containers"]
        for port in container.get("ports", ())
    }


def addresses(found: list[Document]) -> set[str]:
    """Return the addresses that answer within the namespace, as ``host:port``."""
    made = {
        f"{named(document)}:{port['port']}"
        for document in found
        if document["kind"] == "Service"
        for port in document["spec"]["ports"]
    }
    for document in found:
        if document["kind"] == "RayCluster":
            made |= {f"{named(document)}-head-svc:{port}" for port in HEAD_PORTS.values()}
        if document["kind"] == "RayService":
            upgrade = document["spec"].get("upgradeStrategy")
            if upgrade:
                # The Service serve-svc is then the cluster's and has its random name (common/service.go).
                # Istio names a Gateway's Service after both (its page "Kubernetes Gateway API").
                klass = upgrade["clusterUpgradeOptions"]["gatewayClassName"]
                made.add(f"{named(document)}-gateway-{klass}:{GATEWAY_PORT}")
            else:
                head = document["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
                made.add(f"{named(document)}-serve-svc:{container_ports(head).get('serve', 'none')}")
    return made


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return whether a label selector selects ``labels``."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(
        each["key"] in labels and (each["operator"] == "Exists" or labels[each["key"]] in each["values"])
        for each in selector.get("matchExpressions", ())
    )


def reaches(
    found: list[Document],
    source: dict[str, str] | None,
    target: dict[str, str],
    port: int,
    *,
    space: str = OURS,
) -> bool:
    """Return whether the policies let ``source`` (None: from outside) reach a pod's port.

    Args:
        space: the namespace of the source.
    """
    received = _allowed(found, target, "ingress", "from", port, lambda peer: _selected(peer, source, space))
    if source is None or space != OURS:
        return received
    return received and _allowed(
        found, source, "egress", "to", port, lambda peer: _selected(peer, target, OURS)
    )


def calls(
    found: list[Document], source: dict[str, str], address: str, port: int, protocol: str = "TCP"
) -> bool:
    """Return whether the policies let a pod call an address outside the namespace."""

    def within(peer: Document) -> bool:
        block = peer.get("ipBlock", {"cidr": "::/128"})
        parts = [ip_network(each) for each in (block["cidr"], *block.get("except", ()))]
        return ip_address(address) in parts[0] and not any(ip_address(address) in each for each in parts[1:])

    return _allowed(found, source, "egress", "to", port, within, protocol)


def _allowed(
    found: list[Document],
    labels: dict[str, str],
    direction: str,
    peers: str,
    port: int,
    matches: Callable[[Document], bool],
    protocol: str = "TCP",
) -> bool:
    """Return whether no policy of this direction selects a pod, or one of them has a rule for the peer."""
    policies = [
        each["spec"]
        for each in found
        if each["kind"] == "NetworkPolicy"
        and direction.title() in each["spec"]["policyTypes"]
        and selects(each["spec"]["podSelector"], labels)
    ]
    rules = [rule for policy in policies for rule in policy.get(direction, ())]
    return not policies or any(
        (
            "ports" not in rule
            or any((each["port"], each.get("protocol", "TCP")) == (port, protocol) for each in rule["ports"])
        )
        and (peers not in rule or any(matches(peer) for peer in rule[peers]))
        for rule in rules
    )


def _selected(peer: Document, labels: dict[str, str] | None, space: str) -> bool:
    if labels is None or "ipBlock" in peer:
        return False
    # Kubernetes writes this label of every namespace.
    spaces = peer.get("namespaceSelector", {"matchLabels": {NAMESPACE_LABEL: OURS}})
    return selects(spaces, {NAMESPACE_LABEL: space}) and selects(peer.get("podSelector", {}), labels)
