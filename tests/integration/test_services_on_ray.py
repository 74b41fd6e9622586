"""The five services as Serve applications on a Ray cluster, asked over HTTP without the gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from counterpose._stack import Stack
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER, SECRET_HEADER
from counterpose_core.images.codecs import encode_raw
from counterpose_miniature.world.scene import VALUES
from counterpose_services.settings import SERVICES
from fakes.processes import look_until
from fakes.running_stack import kill_replica, listening_ports, replica_of

CAPTION, EDITED = "a red tram on the snow", "a blue tram on the snow"


class Services:
    """A client of the stack's services that knows their secret, and their store."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.url = f"http://127.0.0.1:{stack.services_port}"
        self.store = BlobStore(str(stack.state / "store"))
        secret = (stack.state / "secret").read_text(encoding="utf-8")
        self.http = httpx.Client(base_url=self.url, headers={SECRET_HEADER: secret}, timeout=60.0)

    def post(self, path: str, **body: object) -> dict[str, Any]:
        response = self.http.post(path, json=body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def image(self, seed: int) -> str:
        pixels = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        return self.store.put(encode_raw(pixels))


@pytest.fixture(scope="module")
def services(running_stack: Stack) -> Iterator[Services]:
    opened = Services(running_stack)
    yield opened
    opened.http.close()


def values(answer: dict[str, Any]) -> list[Any]:
    assert all(outcome["problem"] is None for outcome in answer["outcomes"]), answer
    return [outcome["value"] for outcome in answer["outcomes"]]


def test_every_service_is_healthy_and_names_its_weights(services: Services) -> None:
    for service in SERVICES:
        health = services.http.get(f"/{service}/healthz", headers={SECRET_HEADER: ""}).json()
        assert (health["service"], health["ready"]) == (service, True)
        assert len(health["model"]["revision"]) == 64


def test_the_state_file_names_the_process_and_the_address(services: Services) -> None:
    folder = services.stack.state
    # Its services may answer a moment before the launcher, which waits for all of them, writes it.
    look_until((folder / "services.json").exists)
    state = json.loads((folder / "services.json").read_text(encoding="utf-8"))
    assert state["pid"] == services.stack.pids()["services"]
    assert state["url"] == services.url
    assert (folder / "secret").stat().st_mode & 0o077 == 0


@pytest.mark.fault("T11")
def test_no_port_of_ray_serves_its_metrics_to_everybody(services: Services) -> None:
    ports = listening_ports(services.stack)
    assert len(ports) > 3
    for port in sorted(ports):
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=2)
        except httpx.HTTPError:
            # Ray's other ports speak another protocol, and none without the token.
            continue
        assert answer.status_code != 200, port


def test_an_image_passes_through_all_five_services(services: Services) -> None:
    image = services.image(0)
    (caption,) = values(services.post("/captioner/v1/caption", items=[{"image": image}]))
    assert caption["text"]
    asked = {"caption": CAPTION, "perturbation_type": "adjective", "n": 2, "seed": 1}
    (proposed,) = values(services.post("/perturber/v1/perturb", items=[asked]))
    assert proposed["edits"] or proposed["dropped"]
    edit = {"image": image, "caption": CAPTION, "edited_caption": EDITED}
    preset = {"steps": 2, "guidance": 2.0, "self_replace": [0.5]}
    (edited,) = values(services.post("/editor/v1/edit", items=[edit], preset=preset))
    made = edited["variants"][0]["image"]
    item = {"original": image, "edited": made, "caption": CAPTION, "edited_caption": EDITED}
    (scores,) = values(services.post("/scorer/v1/score", items=[item]))
    assert -1 <= scores["direction"] <= 1
    compared = {"plate": [services.image(1)], "bus": [services.image(2)]}
    asked = {"judge": "encoder", "items": [item | {"label": "bus"}], "references": compared}
    (judgement,) = values(services.post("/scorer/v1/judge", **asked))
    assert judgement["verdict"] in ("yes", "no")
    for classifier in ("unbiased-resnet", "zero-shot-clip"):
        question = {
            "classifier": classifier,
            "images": [image, made],
            "classes": list(VALUES["object_class"]),
        }
        predictions = values(services.post("/classifiers/v1/classify", **question))
        assert [sum(one["probabilities"]) for one in predictions] == pytest.approx([1.0, 1.0], abs=1e-4)


def test_a_bad_item_does_not_affect_others(services: Services) -> None:
    images = [services.store.put(b"no image"), services.image(1)]
    first, second = services.post("/scorer/v1/embed-images", images=images)["outcomes"]
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
    method: str, path: str, secret: str | None, status: int, services: Services
) -> None:
    headers = {REQUEST_ID_HEADER: "run-7"} | ({} if secret is None else {SECRET_HEADER: secret})
    response = services.http.request(method, path, headers=headers, json={} if method == "POST" else None)
    assert response.status_code == status
    assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
    assert response.headers.get_list(REQUEST_ID_HEADER) == ["run-7"]
    assert response.json()["request_id"] == "run-7"


def test_a_second_launcher_on_the_same_port_is_refused(services: Services, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "counterpose_services.serving.launcher",
        "up",
        "--state-dir",
        str(tmp_path),
    ]
    environment = services.stack.environment()
    second = subprocess.run(command, env=environment, capture_output=True, timeout=200, check=False)
    assert second.returncode == 3
    assert b"already in use" in second.stdout + second.stderr


@pytest.mark.fault("F2")
def test_a_killed_replica_comes_back(services: Services) -> None:
    killed = kill_replica(services.stack, "scorer")
    look_until(lambda: replica_of(services.stack, "scorer") not in (None, killed))
    body = {"texts": ["a boat"]}
    look_until(lambda: services.http.post("/scorer/v1/embed-texts", json=body).status_code == 200)
