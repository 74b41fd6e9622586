"""The five services as Serve applications on their own Ray cluster, with tiny random models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from fakes.postgres import free_port
from fakes.processes import look_until
from fakes.tiny_models.suite import CLASSES, write_tiny_suite
from faultline_core.blobs import BlobStore
from faultline_core.contract.base import PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER, SECRET_HEADER
from faultline_core.images.codecs import encode_raw
from faultline_services.serving.serve_config import SERVICES

CAPTION, EDITED = "a red tram on the snow", "a blue tram on the snow"


class Cluster:
    """The launcher in a process of its own, and a client that knows its secret."""

    def __init__(self, folder: Path) -> None:
        self.state, self.port = folder / "state", free_port()
        self.environment = dict(os.environ) | {
            "FAULTLINE_STATE_DIR": str(self.state),
            "FAULTLINE_SUITE": str(write_tiny_suite(folder / "suite")),
            "FAULTLINE_SUITE_ROOT": str(folder / "suite"),
            "FAULTLINE_SERVICES_PORT": str(self.port),
            "FAULTLINE_SERVICES_NUM_CPUS": "0.1",
        }
        self.log = folder / "services.log"
        self.process = self.launch("up")
        look_until(lambda: self.process.poll() is not None or (self.state / "services.json").exists())
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
        self.store = BlobStore(str(self.state / "store"))
        secret = (self.state / "secret").read_text(encoding="utf-8")
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers={SECRET_HEADER: secret}, timeout=60.0
        )

    def launch(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "faultline_services.serving.launcher", *arguments]
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def post(self, path: str, **body: object) -> dict[str, Any]:
        response = self.http.post(path, json=body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def image(self, seed: int) -> str:
        pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        return self.store.put(encode_raw(pixels))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("services"))
    yield started
    started.http.close()
    started.process.terminate()
    assert started.process.wait(60) == 0
    assert not (started.state / "services.json").exists()


def values(answer: dict[str, Any]) -> list[Any]:
    assert all(outcome["problem"] is None for outcome in answer["outcomes"]), answer
    return [outcome["value"] for outcome in answer["outcomes"]]


def test_every_service_is_healthy_and_names_its_weights(cluster: Cluster) -> None:
    for service in SERVICES:
        health = cluster.http.get(f"/{service}/healthz", headers={SECRET_HEADER: ""}).json()
        assert (health["service"], health["ready"]) == (service, True)
        assert len(health["model"]["revision"]) == 64


def test_the_state_file_names_the_process_and_the_address(cluster: Cluster) -> None:
    state = json.loads((cluster.state / "services.json").read_text(encoding="utf-8"))
    assert state["pid"] == cluster.process.pid
    assert state["url"] == f"http://127.0.0.1:{cluster.port}"
    assert (cluster.state / "secret").stat().st_mode & 0o077 == 0


def test_an_image_passes_through_all_five_services(cluster: Cluster) -> None:
    image = cluster.image(0)
    (caption,) = values(cluster.post("/captioner/v1/caption", items=[{"image": image}]))
    assert caption["text"]
    asked = {"caption": CAPTION, "perturbation_type": "adjective", "n": 2, "seed": 1}
    (proposed,) = values(cluster.post("/perturber/v1/perturb", items=[asked]))
    assert proposed["edits"] or proposed["dropped"]
    edit = {"image": image, "caption": CAPTION, "edited_caption": EDITED}
    preset = {"steps": 2, "guidance": 2.0, "self_replace": [0.5]}
    (edited,) = values(cluster.post("/editor/v1/edit", items=[edit], preset=preset))
    made = edited["variants"][0]["image"]
    item = {"original": image, "edited": made, "caption": CAPTION, "edited_caption": EDITED}
    (scores,) = values(cluster.post("/scorer/v1/score", items=[item]))
    assert -1 <= scores["direction"] <= 1
    for classifier in ("resnet", "zero-shot"):
        question = {"classifier": classifier, "images": [image, made], "classes": list(CLASSES)}
        predictions = values(cluster.post("/classifiers/v1/classify", **question))
        assert [sum(one["probabilities"]) for one in predictions] == pytest.approx([1.0, 1.0], abs=1e-4)


def test_a_bad_item_does_not_affect_others(cluster: Cluster) -> None:
    images = [cluster.store.put(b"no image"), cluster.image(1)]
    first, second = cluster.post("/scorer/v1/embed-images", images=images)["outcomes"]
    assert first["problem"]["code"] == "image-undecodable"
    assert second["value"]["vector"]


@pytest.mark.parametrize(
    ("method", "path", "secret", "status"),
    [
        ("POST", "/scorer/v1/score", "wrong", 401),
        ("POST", "/scorer/v1/nothing", None, 404),
        ("GET", "/scorer/v1/score", None, 405),
        ("POST", "/scorer/v1/score", None, 422),
        ("POST", "/classifiers/v1/classify", None, 422),
    ],
)
def test_refusals_are_problems_with_the_request_s_id(
    method: str, path: str, secret: str | None, status: int, cluster: Cluster
) -> None:
    headers = {REQUEST_ID_HEADER: "run-7"} | ({} if secret is None else {SECRET_HEADER: secret})
    response = cluster.http.request(method, path, headers=headers, json={} if method == "POST" else None)
    assert response.status_code == status
    assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
    assert response.headers.get_list(REQUEST_ID_HEADER) == ["run-7"]
    assert response.json()["request_id"] == "run-7"


def test_a_second_launcher_on_the_same_port_is_refused(cluster: Cluster) -> None:
    second = cluster.launch("up", "--state-dir", str(cluster.state.parent / "other"))
    assert second.wait(60) == 3
    assert "already in use" in cluster.log.read_text(encoding="utf-8")


def replica(cluster: Cluster, service: str) -> int | None:
    """The process of a service's replica among the descendants of the launcher that this test started."""
    for entry in Path("/proc").iterdir():
        named = entry.name.isdigit() and f"ray::ServeReplica:{service}" in _text(entry / "cmdline")
        # Another cluster on this machine has replicas of the same name.
        if named and _descends(int(entry.name), cluster.process.pid):
            return int(entry.name)
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0
    return pid == ancestor


@pytest.mark.fault("F2")
def test_a_killed_replica_comes_back(cluster: Cluster) -> None:
    before = replica(cluster, "scorer")
    assert before is not None
    os.kill(before, signal.SIGKILL)
    look_until(lambda: replica(cluster, "scorer") not in (None, before))
    body = {"texts": ["a boat"]}
    look_until(lambda: cluster.http.post("/scorer/v1/embed-texts", json=body).status_code == 200)
