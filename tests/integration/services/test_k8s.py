"""The Kubernetes files agree with the code: import paths, settings, hardening."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from faultline_services.serving.serve_config import import_path
from faultline_services.settings import (
    OWN_PREFIX,
    SERVICES,
    SHARED_PREFIX,
    SHARED_WITH_GATEWAY,
    ServiceSettings,
)

K8S = Path(__file__).resolve().parents[3] / "k8s"
OVERLAYS = sorted(folder.name for folder in (K8S / "overlays").iterdir())
OTHERS_VARIABLES = ("RAY_", "HF_")


def documents(file: Path) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(file.read_text(encoding="utf-8")) if found]


def variables(overlay: str, name: str) -> dict[str, str]:
    """The config map ``name`` after the overlay."""
    lines = (K8S / "base" / f"{name.removeprefix('faultline-')}.env").read_text(encoding="utf-8").splitlines()
    (kustomization,) = documents(K8S / "overlays" / overlay / "kustomization.yaml")
    for generator in kustomization["configMapGenerator"]:
        lines += generator["literals"] if generator["name"] == name else []
    return dict(line.split("=", 1) for line in lines)


def ray_pods() -> list[dict[str, Any]]:
    (cluster,) = documents(K8S / "base" / "ray-cluster.yaml")
    config = cluster["spec"]["rayClusterConfig"]
    groups = [config["headGroupSpec"], *config["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def pods() -> list[dict[str, Any]]:
    deployment = documents(K8S / "base" / "gateway.yaml")[0]
    return [*ray_pods(), deployment["spec"]["template"]["spec"]]


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_is_one_application_that_serve_accepts(service: Any) -> None:
    (found,) = documents(K8S / "base" / f"{service}.yaml")
    config = ServeDeploySchema.model_validate(yaml.safe_load(found["spec"]["serveConfigV2"]))
    (application,) = config.applications
    assert found["metadata"]["name"] == application.name == service
    assert application.import_path == import_path(service)
    module, _, builder = application.import_path.partition(":")
    assert callable(getattr(importlib.import_module(module), builder))
    assert application.args == {}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_variable_is_a_setting_with_a_valid_value(
    overlay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables(overlay, "faultline-services").items():
        field = name.removeprefix(OWN_PREFIX).removeprefix(SHARED_PREFIX).lower()
        prefix = SHARED_PREFIX if field in SHARED_WITH_GATEWAY else OWN_PREFIX
        assert name == prefix + field.upper() or name.startswith(OTHERS_VARIABLES), name
        assert field in ServiceSettings.model_fields or name.startswith(OTHERS_VARIABLES), name
        monkeypatch.setenv(name, value)
    settings = ServiceSettings.model_validate({})
    assert settings.suite == overlay
    assert str(settings.secret_file) == "/run/faultline/secret"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_gateway_and_services_share_secret_store_and_suite(overlay: str) -> None:
    services, gateway = variables(overlay, "faultline-services"), variables(overlay, "faultline-gateway")
    for name in ("FAULTLINE_SECRET_FILE", "FAULTLINE_STORE_URL", "FAULTLINE_SUITE"):
        assert services[name] == gateway[name]
    assert gateway["FAULTLINE_SERVICES_URL"].endswith(f":{services['FAULTLINE_SERVICES_PORT']}")


def test_every_container_is_confined_and_bounded() -> None:
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {"requests", "limits"} <= container["resources"].keys()


@pytest.mark.fault("T9", "T11")
def test_ray_starts_only_with_its_token() -> None:
    (cluster,) = documents(K8S / "base" / "ray-cluster.yaml")
    assert cluster["spec"]["rayClusterConfig"]["authOptions"] == {"mode": "token"}


@pytest.mark.parametrize("service", SERVICES)
def test_serve_listens_on_the_port_named_serve(service: Any) -> None:
    (found,) = documents(K8S / "base" / f"{service}.yaml")
    config = ServeDeploySchema.model_validate(yaml.safe_load(found["spec"]["serveConfigV2"]))
    for pod in ray_pods():
        ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
        assert ports["serve"] == config.http_options.port
        # If one is named, the operator uses no others.
        assert {"gcs-server", "dashboard", "client"} <= ports.keys()


def test_the_cluster_scales_with_serve_s_replicas() -> None:
    (cluster,) = documents(K8S / "base" / "ray-cluster.yaml")
    config = cluster["spec"]["rayClusterConfig"]
    assert config["enableInTreeAutoscaling"] is True
    assert config["autoscalerOptions"]["securityContext"]["readOnlyRootFilesystem"] is True
    (workers,) = config["workerGroupSpecs"]
    assert workers["minReplicas"] < workers["maxReplicas"]


def test_kustomize_lists_every_file() -> None:
    (kustomization,) = documents(K8S / "base" / "kustomization.yaml")
    listed = {*kustomization["resources"], *(patch["path"] for patch in kustomization["patches"])}
    present = {file.name for file in (K8S / "base").glob("*.yaml")} - {"kustomization.yaml"}
    assert listed == present
