"""The program with a port for operators: where it listens, what each port answers, how both end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from counterpose_processes.ports import free_port
from fakes.listening import Listener, listeners
from fakes.processes import look_until

PATHS = (
    "/healthz",
    "/v1/datasets",
    "/ui",
    "/openapi.json",
    "/docs",
    "/keys",
    "/metrics",
    "/access-log",
)


@pytest.fixture
def ports() -> tuple[int, int]:
    """The port of the API, and the operators'."""
    return free_port(), free_port()


@pytest.fixture
def program(tmp_path: Path, ports: tuple[int, int]) -> Iterator[subprocess.Popen[bytes]]:
    """A started gateway over an empty folder; its services are not there."""
    command = [sys.executable, "-m", "counterpose_gateway.main", "serve", "--port", str(ports[0])]
    command += ["--admin-port", str(ports[1])]
    unset = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERPOSE_")}
    told = unset | {"COUNTERPOSE_STATE_DIR": str(tmp_path), "COUNTERPOSE_SECRET": "s" * 32}
    with subprocess.Popen(command, env=told) as started:
        try:
            look_until(lambda: all(answers(port, "/healthz") is not None for port in ports))
            yield started
        finally:
            started.kill()


def answers(port: int, path: str) -> int | None:
    """The status of an answer, or None if nobody listens."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60, trust_env=False).status_code
    except httpx.TransportError:
        return None


@pytest.mark.fault("T7", "T10")
def test_two_ports_of_loopback_are_open_and_share_no_path(
    program: subprocess.Popen[bytes], ports: tuple[int, int]
) -> None:
    public, admin = ports
    assert listeners(program.pid) == {Listener("127.0.0.1", public), Listener("127.0.0.1", admin)}
    found = {port: {path for path in PATHS if answers(port, path) != 404} for port in ports}
    assert found[public] == {"/healthz", "/v1/datasets", "/ui", "/openapi.json"}
    assert found[admin] == {"/metrics", "/access-log"}
    program.send_signal(signal.SIGTERM)
    assert program.wait(60) == 0
