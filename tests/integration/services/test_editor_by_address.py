"""The editor of the suite `api` on Ray Serve: replicas come for pending work, and go when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import SECRET_HEADER
from counterpose_core.images.codecs import encode_raw
from counterpose_processes.ports import free_port
from fakes.images_server import Asked, ImagesServer, Reply, images_server, obey
from fakes.process_trees import descendants, title
from fakes.processes import look_until
from fakes.suite_servers import SERVERS

MOST = 4
CALLS, ITEMS = 7, 8
"""Two full batches of eight edits keep a replica busy: these 56 edits keep three and a half."""


@dataclass(frozen=True)
class Services:
    """The launcher of the editor alone, its address and its folder."""

    launcher: subprocess.Popen[bytes]
    url: str
    folder: Path

    def replicas(self) -> int:
        """How many processes serve the editor."""
        return sum(
            title(pid).startswith("ray::ServeReplica:editor") for pid in descendants(self.launcher.pid)
        )

    def edit(self, number: int) -> list[dict[str, Any]]:
        """Ask for the edits of one call."""
        pixels = np.full((8, 8, 3), number, dtype=np.uint8)
        image = BlobStore(str(self.folder / "store")).put(encode_raw(pixels))
        items = [
            {
                "image": image,
                "caption": "a dog on the grass",
                "edited_caption": f"a dog on the {number} of {at}",
            }
            for at in range(ITEMS)
        ]
        answer = httpx.post(
            f"{self.url}/editor/v1/edit",
            json={"items": items, "preset": {"backend": "images-api", "seeded": True}},
            headers={SECRET_HEADER: (self.folder / "secret").read_text(encoding="utf-8")},
            timeout=200.0,
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        outcomes: list[dict[str, Any]] = answer.json()["outcomes"]
        return outcomes


@pytest.fixture
def released() -> threading.Event:
    """Whether the server answers."""
    return threading.Event()


@pytest.fixture
def server(released: threading.Event) -> Iterator[ImagesServer]:
    def patient(asked: Asked, closing: threading.Event) -> Reply:
        released.wait(200.0)
        return obey(asked, closing)

    with images_server(patient) as serving:
        yield serving


@pytest.fixture
def services(server: ImagesServer, tmp_path: Path) -> Iterator[Services]:
    port = free_port()
    told = SERVERS.model_copy(update={"images_server": server.url}).model_dump()
    environment = os.environ | {f"COUNTERPOSE_{name.upper()}": value for name, value in told.items()}
    environment |= {
        "COUNTERPOSE_SUITE": "api",
        "COUNTERPOSE_STATE_DIR": str(tmp_path),
        "COUNTERPOSE_SERVICES_PORT": str(port),
        "COUNTERPOSE_EDITOR_MIN_REPLICAS": "0",
        "COUNTERPOSE_EDITOR_MAX_REPLICAS": str(MOST),
        "COUNTERPOSE_EDITOR_START_S": "1",
        "COUNTERPOSE_SERVICES_UPSCALE_DELAY_S": "1",
        "COUNTERPOSE_SERVICES_DOWNSCALE_DELAY_S": "3",
    }
    command = [sys.executable, "-m", "counterpose_services.serving.launcher", "up", "--only", "editor"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as launcher,
    ):
        try:
            look_until(lambda: (tmp_path / "services.json").exists() or launcher.poll() is not None)
            assert launcher.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")
            yield Services(launcher, f"http://127.0.0.1:{port}", tmp_path)
        finally:
            launcher.terminate()
            launcher.wait(60.0)


@pytest.mark.timeout(300)
def test_an_editor_has_no_replica_without_work_and_four_for_much(
    services: Services, server: ImagesServer, released: threading.Event
) -> None:
    # One is started to show that it starts.
    look_until(lambda: services.replicas() == 0)
    assert server.asked == []
    with ThreadPoolExecutor(CALLS) as calls:
        pending = [calls.submit(services.edit, number) for number in range(CALLS)]
        try:
            look_until(lambda: services.replicas() == MOST or any(each.done() for each in pending))
        finally:
            released.set()
        outcomes = [outcome for each in pending for outcome in each.result()]
    assert [outcome["problem"] for outcome in outcomes] == [None] * (CALLS * ITEMS)
    # Nothing was asked for, and paid for, twice.
    assert len(server.asked) == CALLS * ITEMS
    look_until(lambda: services.replicas() == 0)
