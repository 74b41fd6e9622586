"""The Kubernetes files agree with the code and with the operator, without a cluster."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from ray.serve.schema import ServeDeploySchema

from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import load_suite
from counterpose_services.editor.deployment import build as build_editor
from counterpose_services.openai_api.terms import image_terms
from counterpose_services.scorer.deployment import build as build_scorer
from manifests.checks import files, problems
from manifests.operator import OPERATOR, OURS, made_pods, reaches
from manifests.ray_fields import require_known_fields
from manifests.references import stated_secrets
from manifests.rendering import K8S, Document, named, overlay, ray_service
from manifests.variables import gateway_settings, services_settings

UPGRADE, JOBS, OBSERVABILITY = "incremental-upgrade", "jobs", "observability"
RENDERED = [
    ("laptop",), ("photographs",), ("photographs", JOBS), ("api",), ("api", JOBS),
    ("gpu",), ("gpu", UPGRADE), ("gpu", JOBS), ("gpu", UPGRADE, JOBS), ("gpu", OBSERVABILITY),
]  # fmt: skip
SUITES = {"laptop": "miniature", "photographs": "photographs", "gpu": "lance", "api": "api"}
KEYS = {"COUNTERPOSE_API_KEYS": "sixteen-letters-or-more"}
SERVE_PORT, DASHBOARD_PORT = 8101, 8265


def found_in(found: list[Document], kind: str, name: str = "services") -> Document:
    """Return the document of a kind and name."""
    (document,) = (each for each in found if (each["kind"], named(each)) == (kind, name))
    return document


def workers(found: list[Document]) -> list[Document]:
    """Return the worker groups."""
    groups: list[Document] = ray_service(found)["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    return groups


def pod_of(found: list[Document], name: str) -> Document:
    """Return the pod template's spec of a deployment."""
    spec: Document = found_in(found, "Deployment", name)["spec"]["template"]["spec"]
    return spec


def environment(found: list[Document]) -> list[Document]:
    """The variables of the gateway's container itself; of those in secrets the names alone."""
    own: list[Document] = pod_of(found, "gateway")["containers"][0]["env"]
    return [each for each in own if not each["name"].endswith(("API_KEYS", "DATABASE_URL"))] + [
        {"name": "COUNTERPOSE_API_KEYS", "value": KEYS["COUNTERPOSE_API_KEYS"]}
    ]


def variables_of(found: list[Document], name: str) -> dict[str, str]:
    """Return the config map of a program, which may be changed."""
    data: dict[str, str] = found_in(found, "ConfigMap", f"counterpose-{name}")["data"]
    return data


def without_database(found: list[Document]) -> None:
    for container in pod_of(found, "gateway")["containers"]:
        container["env"] = [each for each in container["env"] if "DATABASE" not in each["name"]]


def unmade_secret(found: list[Document]) -> None:
    for container in pod_of(found, "gateway")["containers"]:
        for each in container["env"]:
            if "valueFrom" in each:
                each["valueFrom"]["secretKeyRef"]["key"] = "uri"


def http_on_loopback(found: list[Document]) -> None:
    service = ray_service(found)["spec"]
    service["serveConfigV2"] = service["serveConfigV2"].replace("host: 0.0.0.0", "host: 127.0.0.1")


def ray_without_version(found: list[Document]) -> None:
    del ray_service(found)["metadata"]["annotations"]


def old_operator(found: list[Document]) -> None:
    ray_service(found)["metadata"]["annotations"]["counterpose/kuberay-at-least"] = "1.5.0"


def short_grace(found: list[Document]) -> None:
    workers(found)[0]["template"]["spec"]["terminationGracePeriodSeconds"] = 605


def early_deletion(found: list[Document]) -> None:
    del ray_service(found)["spec"]["rayClusterDeletionDelaySeconds"]


def longer_calls(found: list[Document]) -> None:
    variables_of(found, "services")["COUNTERPOSE_SERVICES_REQUEST_TIMEOUT_S"] = "900"


def unknown_setting(found: list[Document]) -> None:
    variables_of(found, "gateway")["COUNTERPOSE_LEASE_SECOND"] = "30"


def unknown_services_setting(found: list[Document]) -> None:
    variables_of(found, "services")["COUNTERPOSE_EDITOR_GPUS"] = "1"


def other_store(found: list[Document]) -> None:
    variables_of(found, "services")["COUNTERPOSE_STORE_URL"] = "s3://counterpose/other"


def other_port(found: list[Document]) -> None:
    workers(found)[0]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = 8000


def other_address(found: list[Document]) -> None:
    variables_of(found, "gateway")["COUNTERPOSE_SERVICES_URL"] = "http://{service}-serve-svc:8101"


def missing_group(found: list[Document]) -> None:
    variables_of(found, "services")["COUNTERPOSE_SCORER_NODE_GROUP"] = "scorers"


def too_many_replicas(found: list[Document]) -> None:
    variables_of(found, "services")["COUNTERPOSE_EDITOR_MAX_REPLICAS"] = "5"


def too_many_processors(found: list[Document]) -> None:
    variables_of(found, "services")["COUNTERPOSE_SERVICES_NUM_CPUS"] = "16"


def drain_forbidden(found: list[Document]) -> None:
    found_in(found, "PodDisruptionBudget")["spec"]["minAvailable"] = 3


def budget_of_a_percentage(found: list[Document]) -> None:
    found_in(found, "PodDisruptionBudget")["spec"] |= {"maxUnavailable": 1}


def unknown_image(found: list[Document]) -> None:
    workers(found)[0]["template"]["spec"]["containers"][0]["image"] = "counterpose-services:0.1.0"


def unmounted_cache(found: list[Document]) -> None:
    variables_of(found, "services")["HF_HOME"] = "/models/huggingface"


def root(found: list[Document]) -> None:
    pod_of(found, "gateway")["securityContext"]["runAsUser"] = 0


def open_services(found: list[Document]) -> None:
    rule = found_in(found, "Ingress", "gateway")["spec"]["rules"][0]["http"]["paths"][0]
    rule["backend"]["service"]["name"] = "services-serve-svc"


def lost_application(found: list[Document]) -> None:
    service = ray_service(found)["spec"]
    service["serveConfigV2"] = service["serveConfigV2"].replace("scorer.deployment", "scores.deployment")


def without_policy(name: str) -> Callable[[list[Document]], None]:
    def spoil(found: list[Document]) -> None:
        found.remove(found_in(found, "NetworkPolicy", name))

    spoil.__name__ = f"without_{name}"
    return spoil


def unknown_jobs(found: list[Document]) -> None:
    variables_of(found, "gateway")["COUNTERPOSE_CLUSTERS"] = "jobs=http://jobs-head-svc:8266"


def token_without_secret(found: list[Document]) -> None:
    found_in(found, "RayCluster", "jobs")["spec"]["authOptions"]["secretName"] = "counterpose-token"


def open_egress(found: list[Document]) -> None:
    policy = found_in(found, "NetworkPolicy", "services-to-https")["spec"]
    policy["egress"] = [{"ports": [{"port": 443}]}]


def private_egress(found: list[Document]) -> None:
    for rule in found_in(found, "NetworkPolicy", "services-to-https")["spec"]["egress"]:
        for peer in rule["to"]:
            peer["ipBlock"]["except"] = (
                ["169.254.0.0/16"] if "." in peer["ipBlock"]["cidr"] else ["fe80::/10"]
            )


def ready_with_services(found: list[Document]) -> None:
    pod_of(found, "gateway")["containers"][0]["readinessProbe"]["httpGet"]["path"] = "/readyz"


def unlabelled_gateway(found: list[Document]) -> None:
    del found_in(found, "Service", "gateway-admin")["metadata"]["labels"]


def open_names(found: list[Document]) -> None:
    found_in(found, "NetworkPolicy", "names")["spec"]["egress"] = [{}]


DEFECTS: dict[Callable[[list[Document]], None], str] = {
    without_database: "no PostgreSQL",
    unmade_secret: "no key uri in a secret counterpose-database",
    http_on_loopback: "http_options are not",
    ray_without_version: "KubeRay 1.5.1 is needed, None stated",
    old_operator: "KubeRay 1.5.1 is needed, 1.5.0 stated",
    short_grace: "the grace period is not longer than a drain of 605 s",
    early_deletion: "an old cluster is deleted before its drain",
    longer_calls: "the grace period is not longer than a drain of 905 s",
    unknown_setting: "COUNTERPOSE_LEASE_SECOND is no setting",
    unknown_services_setting: "COUNTERPOSE_EDITOR_GPUS is no setting",
    other_store: "COUNTERPOSE_STORE_URL differs",
    other_port: "the operator probes port serve",
    other_address: "where nothing answers",
    missing_group: "scorer: no worker group scorers",
    too_many_replicas: "editor: replicas ask for 5 GPUs",
    too_many_processors: "editor: replicas ask for 64 processors, maxReplicas has 32",
    drain_forbidden: "lets no node be drained",
    budget_of_a_percentage: "maxUnavailable has no meaning",
    unknown_image: "no stage of the Dockerfile makes counterpose-services:0.1.0",
    unmounted_cache: "/models/huggingface, which cannot be written",
    root: "does not run as the image's user",
    open_services: "ingress opens services-serve-svc",
    lost_application: "the applications are not those",
    without_policy("names"): "does not reach names",
    without_policy("gateway-to-database-and-store"): "gateway does not reach PostgreSQL",
    without_policy("services-to-https"): "does not reach what it fetches by HTTPS",
    without_policy("head-to-kubernetes"): "services/headgroup does not reach the Kubernetes API",
    ready_with_services: "/readyz, which depends on the services",
    open_names: "reaches port 6379 of 203.0.113.9 without need",
    unlabelled_gateway: "monitor gateway finds no port admin",
    unknown_jobs: "the gateway submits jobs to jobs-head-svc:8266, where nothing answers",
    token_without_secret: "cluster jobs: no key auth_token in a secret counterpose-token",
    private_egress: "services/editor reaches port 443 of 10.0.0.9 without need",
    open_egress: "services/editor reaches the cloud's metadata",
}


@pytest.mark.fault("T9", "T11")
@pytest.mark.parametrize("rendered", RENDERED, ids="+".join)
def test_nothing_is_wrong_with_the_rendered_manifests(rendered: tuple[str, ...]) -> None:
    found = overlay(*rendered)
    for document in found:
        require_known_fields(document)
    assert problems(found) == []
    assert list(files()) == []


@pytest.mark.parametrize("spoil", DEFECTS, ids=lambda spoil: spoil.__name__)
def test_each_defect_is_found(spoil: Callable[[list[Document]], None]) -> None:
    found = overlay("gpu", JOBS, OBSERVABILITY)
    spoil(found)
    told = problems(found)
    assert any(DEFECTS[spoil] in problem for problem in told), told


def test_a_misspelt_field_is_refused() -> None:
    found = overlay("laptop")
    workers(found)[0]["template"]["spec"]["terminationGracePeriod"] = 630
    with pytest.raises(ValidationError, match="terminationGracePeriod"):
        require_known_fields(ray_service(found))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="compares this renderer with kustomize's own")
@pytest.mark.parametrize("rendered", RENDERED, ids="+".join)
def test_kustomize_renders_the_same(rendered: tuple[str, ...], tmp_path: Path) -> None:
    name, *components = rendered
    kustomization = {
        # Kustomize refuses absolute paths.
        "resources": [os.path.relpath(K8S / "overlays" / name, tmp_path)],
        "components": [os.path.relpath(K8S / "components" / each, tmp_path) for each in components],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    command = ["kubectl", "kustomize", str(tmp_path)]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout

    def ordered(found: Any) -> list[Document]:
        return sorted(found, key=lambda each: (each["kind"], named(each)))

    assert ordered(overlay(*rendered)) == ordered(yaml.safe_load_all(theirs))


@pytest.mark.parametrize("rendered", RENDERED, ids="+".join)
def test_serve_and_the_settings_accept_what_is_rendered(rendered: tuple[str, ...]) -> None:
    found = overlay(*rendered)
    config = ServeDeploySchema.model_validate(yaml.safe_load(ray_service(found)["spec"]["serveConfigV2"]))
    assert config.proxy_location.value == "EveryNode"
    assert services_settings(found).suite == SUITES[rendered[0]]
    settings = gateway_settings(found, **KEYS)
    assert settings.service_url("scorer") == f"{settings.services_url}/scorer"
    with pytest.raises(ValidationError, match="COUNTERPOSE_API_KEYS"):
        gateway_settings(found)


def test_a_suite_deploys_the_services_that_it_has() -> None:
    found = overlay("photographs")
    serve = yaml.safe_load(ray_service(found)["spec"]["serveConfigV2"])
    assert [each["name"] for each in serve["applications"]] == ["classifiers"]
    assert not [pod.origin for pod in made_pods(found) if "nvidia.com/gpu" in yaml.safe_dump(pod.spec)]
    variables_of(found, "services")["COUNTERPOSE_SUITE"] = "lance"
    assert "the applications are not those of `counterpose-services config`" in problems(found)


def test_an_editor_by_address_needs_no_gpu_and_is_there_only_for_work() -> None:
    found = overlay("api")
    assert not [pod.origin for pod in made_pods(found) if "nvidia.com/gpu" in yaml.safe_dump(found)]
    settings = services_settings(found)
    options = build_editor(settings)._bound_deployment
    scaling = options._deployment_config.autoscaling_config
    assert scaling is not None
    assert (scaling.min_replicas, scaling.max_replicas) == (0, 4)
    assert not (options.ray_actor_options or {}).get("num_gpus")
    image_server = load_suite(settings.suite, settings).editor.server
    assert image_server == "https://images.example.com/v1"
    image_terms(settings).require_listed(image_server)


def test_gateway_and_services_ask_the_same_servers() -> None:
    found = overlay("api")
    variables_of(found, "services")["COUNTERPOSE_IMAGES_SERVER"] = "https://other.example.com/v1"
    assert "COUNTERPOSE_IMAGES_SERVER differs between gateway and services" in problems(found)
    del variables_of(found, "services")["COUNTERPOSE_LANGUAGE_MODEL"]
    with pytest.raises(InvalidRequest, match="set COUNTERPOSE_LANGUAGE_MODEL"):
        problems(found)


@pytest.mark.fault("T7")
def test_prometheus_alone_reaches_the_port_for_operators() -> None:
    found = overlay("gpu", OBSERVABILITY)
    (gateway,) = (pod for pod in made_pods(found) if pod.origin == "gateway")
    assert gateway.ports == {8080, 9090}
    prometheus, worker = ({"app.kubernetes.io/name": name} for name in ("prometheus", "worker"))
    assert reaches(found, prometheus, gateway.labels, 9090, space="monitoring")
    assert not reaches(found, prometheus, gateway.labels, 9090, space="theirs")
    assert not reaches(found, worker, gateway.labels, 9090)
    told = {each["name"]: each.get("value", KEYS["COUNTERPOSE_API_KEYS"] * 2) for each in environment(found)}
    settings = gateway_settings(found, **told)
    assert (settings.admin_host, settings.admin_port) == ("0.0.0.0", 9090)


@pytest.mark.parametrize("rendered", RENDERED, ids="+".join)
def test_strangers_reach_the_gateway_and_nothing_else(rendered: tuple[str, ...]) -> None:
    found = overlay(*rendered)
    pods = made_pods(found)
    stranger = {"app.kubernetes.io/name": "other"}
    # Whoever makes pods in a namespace of theirs gives them any labels.
    forged = [{"app.kubernetes.io/name": name} for name in ("gateway", "worker", "prometheus")]
    for source, space in (
        *((stranger, space) for space in (OURS, "theirs", "kuberay-system")), (None, "theirs"),
        *((labels, "theirs") for labels in (OPERATOR, {"ray.io/cluster": "services-abcde"}, *forged)),
    ):  # fmt: skip
        reached = {
            (pod.origin, port)
            for pod in pods
            for port in pod.ports
            if reaches(found, source, pod.labels, port, space=space)
        }
        assert reached == {("gateway", 8080)}
    ray = [pod for pod in pods if pod.on_ray]
    for caller, target in itertools.product(pods, ray):
        labels = caller.labels, target.labels
        ports = {port for port in target.ports if reaches(found, *labels, port)}
        submits = (
            {DASHBOARD_PORT} if (caller.origin, target.origin) == ("gateway", "jobs/headgroup") else set()
        )
        assert ports == (set(target.ports) if caller.on_ray else {SERVE_PORT} & target.ports | submits)
    for target in ray:
        asked = {
            port
            for port in target.ports
            if reaches(found, OPERATOR, target.labels, port, space="kuberay-system")
        }
        assert asked == {SERVE_PORT, DASHBOARD_PORT} & target.ports


def test_a_service_s_node_group_selects_the_nodes_of_its_replicas() -> None:
    settings = services_settings(overlay("gpu"))
    editor = build_editor(settings)._bound_deployment.ray_actor_options or {}
    anywhere = services_settings(overlay("laptop"))
    scorer = build_scorer(anywhere)._bound_deployment.ray_actor_options or {}
    assert editor["label_selector"] == {"ray.io/node-group": "editor"}
    assert "label_selector" not in scorer


def test_the_secrets_told_are_those_that_are_used() -> None:
    text = "".join(yaml.safe_dump(overlay(*rendered)) for rendered in RENDERED)
    for name, keys in stated_secrets().items():
        assert name in text
        assert keys
