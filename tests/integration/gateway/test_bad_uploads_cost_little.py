"""Every bad upload to a running gateway costs little and leaves the process healthy."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from counterpose_core.errors import error_classes
from counterpose_processes.ports import free_port
from fakes.bad_files import BAD, IMAGE
from fakes.problems import problem
from fakes.processes import look_until

MOST_SECONDS, MOST_BYTES = 2.0, 50 * 2**20
"""Processor time, not wall clock: other load on the machine must not decide."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Served:
    """A gateway in a separate process, with an empty dataset."""

    process: subprocess.Popen[bytes]
    http: httpx.Client
    folder: Path

    def send(self, content: bytes) -> httpx.Response:
        """Upload one file."""
        text = base64.b64encode(content).decode()
        source = {"filename": "a.png", "label": "sled", "content_base64": text}
        return self.http.post("/v1/datasets/demo/sources", json={"sources": [source]})

    def seconds(self) -> float:
        """Processor time that the process has used."""
        fields = self._about("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak(self) -> int:
        """The peak memory in bytes since the last reset."""
        (line,) = (line for line in self._about("status").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def forget_peak(self) -> None:
        """Reset the peak to the current memory."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def stored(self) -> list[Path]:
        """The files in its store."""
        return [path for path in (self.folder / "store").rglob("*") if path.is_file()]

    def _about(self, name: str) -> str:
        return Path(f"/proc/{self.process.pid}/{name}").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, port = tmp_path_factory.mktemp("served"), free_port()
    (folder / "secret").write_text("a-secret-of-some-length", encoding="utf-8")
    (folder / "secret").chmod(0o600)
    env = {
        **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COUNTERPOSE_STATE_DIR": str(folder),
        "COUNTERPOSE_PORT": str(port), "COUNTERPOSE_SERVICES_URL": f"http://127.0.0.1:{free_port()}",
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "counterpose_gateway.main", "serve"]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as http:
        found = Served(process, http, folder)
        try:
            look_until(lambda: _answers(http))
            http.post("/v1/datasets", json={"name": "demo", "classes": ["sled"]})
            # The first image loads libraries and allocates memory: no cost of the bad ones.
            assert found.send(IMAGE).json()["added"] == 1
            yield found
        finally:
            process.kill()
            process.wait()


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_upload_costs_little_and_the_gateway_stays_healthy(served: Served, kind: str) -> None:
    content, code = BAD[kind]
    before, memory, seconds = served.stored(), _memory(served), served.seconds()
    problem(served.send(content), error_classes()[code].status, code)
    assert served.seconds() - seconds <= MOST_SECONDS
    assert served.peak() - memory <= MOST_BYTES
    assert served.stored() == before
    assert served.process.poll() is None
    assert "Traceback" not in (served.folder / "log").read_text(encoding="utf-8")


def _memory(served: Served) -> int:
    served.forget_peak()
    return served.peak()
