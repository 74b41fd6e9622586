"""What no schema sees: each function returns what is wrong with rendered manifests, as sentences."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from counterpose_services.serving.engine_service import DRAIN_MARGIN_S
from counterpose_services.serving.serve_config import serve_config, services_of
from locks.pins import read_pins
from manifests.calling import calling
from manifests.listening import listening
from manifests.operator import made_pods, selects
from manifests.paths import paths
from manifests.ray_fields import first_version
from manifests.references import references
from manifests.rendering import K8S, ROOT, Document, documents, named, ray_service
from manifests.variables import ledger, services_settings, variables

Problems = Iterator[str]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GPU = "nvidia.com/gpu"


def applications(found: list[Document]) -> Problems:
    """Yield every difference from the launcher's own list of applications."""
    serve = yaml.safe_load(ray_service(found)["spec"]["serveConfigV2"])
    told = [{**each, "args": None} for each in serve["applications"]]
    settings = services_settings(found)
    expected = serve_config(settings, services_of(settings))["applications"]
    expected = [{**each, "args": None} for each in expected]
    if told != expected:
        yield "the applications are not those of `counterpose-services config`"
    for each in serve["applications"]:
        if not _there(each["import_path"]):
            yield f"no {each['import_path']}"
        if each["args"]:
            yield f"{each['name']} has arguments beside the config map"


def _there(import_path: str) -> bool:
    module, _, builder = import_path.partition(":")
    try:
        return callable(getattr(importlib.import_module(module), builder, None))
    except ModuleNotFoundError:
        return False


def drains(found: list[Document]) -> Problems:
    """Yield every way in which a call is cut off before its time is over."""
    service = ray_service(found)
    drain = services_settings(found).request_timeout_s + DRAIN_MARGIN_S
    for pod in (pod for pod in made_pods(found) if pod.serves):
        if pod.spec.get("terminationGracePeriodSeconds", 30) <= drain:
            yield f"{pod.origin}: the grace period is not longer than a drain of {drain:g} s"
    if service["spec"].get("rayClusterDeletionDelaySeconds", 60) <= drain:
        yield f"an old cluster is deleted before its drain of {drain:g} s"


def versions(found: list[Document]) -> Problems:
    """Yield what does not state, or does not fit, the versions of KubeRay, Ray and the images."""
    for cluster in (each for each in found if each["kind"] in ("RayService", "RayCluster")):
        yield from _ray_versions(cluster)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    for pod in made_pods(found):
        for container in pod.spec["containers"]:
            match = re.fullmatch(r"counterpose-([\w-]+):([\w.]+)", container["image"])
            if not match or match[1] not in stages or match[2] != PROJECT["version"]:
                yield f"{pod.origin}: no stage of the Dockerfile makes {container['image']}"


def _ray_versions(cluster: Document) -> Problems:
    stated = cluster["metadata"].get("annotations", {}).get("counterpose/kuberay-at-least")
    needed = first_version(cluster["spec"])
    if stated is None or tuple(int(part) for part in stated.split(".")) < needed:
        yield f"KubeRay {'.'.join(map(str, needed))} is needed, {stated} stated"
    elif f"KubeRay {stated}" not in (K8S / "README.md").read_text(encoding="utf-8"):
        yield f"k8s/README.md does not tell to install KubeRay {stated}"
    ray = cluster["spec"].get("rayClusterConfig", cluster["spec"])["rayVersion"]
    if read_pins(ROOT / "requirements.lock")["ray"][0] != ray:
        yield f"Ray {ray} is not the lock's"


def scaling(found: list[Document]) -> Problems:
    """Yield groups that are not there or too small, scalers of nothing, and budgets that hold up a drain."""
    config = ray_service(found)["spec"]["rayClusterConfig"]
    groups = {group["groupName"]: group for group in config["workerGroupSpecs"]}
    yield from _too_small(found, groups)
    for name, group in groups.items():
        if group["maxReplicas"] > group["minReplicas"] and not config.get("enableInTreeAutoscaling"):
            yield f"{name}: nothing scales it"
    deployments = {named(each): each["spec"] for each in found if each["kind"] == "Deployment"}
    fewest = {name: spec.get("replicas", 1) for name, spec in deployments.items()}
    for scaler in (each["spec"] for each in found if each["kind"] == "HorizontalPodAutoscaler"):
        target = scaler["scaleTargetRef"]["name"]
        if target not in deployments or "replicas" in deployments[target]:
            yield f"{target} is not there for its scaler alone"
        fewest[target] = scaler["minReplicas"]
    fewest |= {f"services/{name}": group["minReplicas"] for name, group in groups.items()}
    yield from _budgets(found, fewest)


def _too_small(found: list[Document], groups: dict[str, Document]) -> Problems:
    """Yield groups without room for their services' replicas, by the limits of their pods, as Ray counts."""
    settings = services_settings(found)
    asked: dict[tuple[str, str, str], float] = defaultdict(float)
    for service in services_of(settings):
        own = settings.of(service)
        name = own.node_group or next(iter(groups))
        if name not in groups:
            yield f"{service}: no worker group {name}"
            continue
        for field, replicas in (("minReplicas", own.min_replicas), ("maxReplicas", own.max_replicas)):
            asked[name, field, GPU] += replicas * own.num_gpus
            asked[name, field, "cpu"] += replicas * settings.num_cpus
    for (name, field, resource), wanted in asked.items():
        limits = groups[name]["template"]["spec"]["containers"][0]["resources"]["limits"]
        room = groups[name][field] * float(limits.get(resource, 0))
        if wanted > room + 1e-9:
            kind = "GPUs" if resource == GPU else "processors"
            yield f"{name}: replicas ask for {wanted:g} {kind}, {field} has {room:g}"


def _budgets(found: list[Document], fewest: dict[str, int]) -> Problems:
    for budget in (each for each in found if each["kind"] == "PodDisruptionBudget"):
        spec = budget["spec"]
        pods = [pod for pod in made_pods(found) if selects(spec["selector"], pod.labels)]
        if not pods:
            yield f"budget {named(budget)} selects no pod"
        if any(pod.on_ray for pod in pods) and "maxUnavailable" in spec:
            yield f"budget {named(budget)}: maxUnavailable has no meaning for a RayCluster's pods"
        if spec.get("minAvailable", 0) >= sum(fewest[pod.origin] for pod in pods):
            yield f"budget {named(budget)} lets no node be drained"


def confinement(found: list[Document]) -> Problems:
    """Yield containers that run as root, write their image, or have no bounds."""
    (user,) = re.findall(r"--uid (\d+) counterpose", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    for pod in made_pods(found):
        security: dict[str, Any] = pod.spec["securityContext"]
        if security["runAsNonRoot"] is not True or security["runAsUser"] != int(user):
            yield f"{pod.origin}: does not run as the image's user"
        if pod.labels.get("ray.io/node-type") != "head" and pod.spec["automountServiceAccountToken"]:
            yield f"{pod.origin}: has a token of the cluster"
        for container in pod.spec["containers"]:
            confined = container["securityContext"]
            if not confined["readOnlyRootFilesystem"] or confined["allowPrivilegeEscalation"]:
                yield f"{pod.origin}: {container['name']} is not confined"
            if confined["capabilities"] != {"drop": ["ALL"]}:
                yield f"{pod.origin}: {container['name']} has capabilities"


CHECKS: tuple[Callable[[list[Document]], Problems], ...] = (
    references,
    variables,
    ledger,
    paths,
    listening,
    calling,
    applications,
    drains,
    versions,
    scaling,
    confinement,
)


def problems(found: list[Document]) -> list[str]:
    """Return what every check finds."""
    return [problem for check in CHECKS for problem in check(found)]


def files() -> Problems:
    """Yield files of ``k8s`` that no kustomization names or that its README does not describe."""
    readme = (K8S / "README.md").read_text(encoding="utf-8")
    for folder in {path.parent for path in K8S.rglob("kustomization.yaml")}:
        (kustomization,) = documents(folder / "kustomization.yaml")
        listed = {"kustomization.yaml", *kustomization.get("resources", ())}
        listed |= {patch["path"] for patch in kustomization.get("patches", ())}
        for generator in kustomization["configMapGenerator"]:
            listed |= {*generator.get("envs", ()), *generator.get("files", ())}
        for path in folder.iterdir():
            if path.is_file() and path.name not in listed:
                yield f"{path.relative_to(K8S)} is in no kustomization"
            if path.is_file() and f"`{path.relative_to(K8S)}`" not in readme:
                yield f"{path.relative_to(K8S)} is not in k8s/README.md"
