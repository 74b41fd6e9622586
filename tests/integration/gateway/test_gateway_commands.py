"""``counterpose-gateway serve`` and ``work`` as processes: they start within seconds and stop cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from counterpose_processes.ports import free_port
from fakes.processes import look_until

STOP_SECONDS = 100.0


def environment(folder: Path, port: int) -> dict[str, str]:
    (folder / "secret").write_text("a-secret-of-some-length", encoding="utf-8")
    (folder / "secret").chmod(0o600)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COUNTERPOSE_STATE_DIR": str(folder),
        "COUNTERPOSE_PORT": str(port),
        "COUNTERPOSE_SERVICES_URL": f"http://127.0.0.1:{free_port()}",
        "COUNTERPOSE_PATIENCE_SECONDS": "0",
    }


def run(verb: str, folder: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / f"{verb}.log").open("wb") as log:
        command = [sys.executable, "-m", "counterpose_gateway.main", verb]
        return subprocess.Popen(command, env=env, stdout=log, stderr=log)


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def catches(process: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal, as the kernel knows it."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def ended(processes: list[subprocess.Popen[bytes]]) -> bool:
    return any(process.poll() is not None for process in processes)


def test_both_commands_start_without_services_and_stop_on_sigterm(tmp_path: Path) -> None:
    port = free_port()
    env, url = environment(tmp_path, port), f"http://127.0.0.1:{port}"
    began = time.monotonic()
    processes = [run(verb, tmp_path, env) for verb in ("serve", "work")]
    try:
        look_until(lambda: answers(url) or ended(processes))
        assert not ended(processes), [
            (tmp_path / f"{verb}.log").read_text("utf-8") for verb in ("serve", "work")
        ]
        assert time.monotonic() - began < 60
        services = httpx.get(f"{url}/v1/services", timeout=60).json()["services"]
        assert [service["ready"] for service in services] == [False] * 5
        assert httpx.get(f"{url}/readyz", timeout=60).status_code == 503
        assert httpx.get(f"{url}/v1/datasets", timeout=60).json() == {"datasets": []}
        assert (tmp_path / "ledger.db").stat().st_mode & 0o077 == 0
        # A worker answers nothing: it is up when it no longer dies of the signal.
        look_until(lambda: all(catches(process, signal.SIGTERM) for process in processes))
        for process in processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(timeout=STOP_SECONDS) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
