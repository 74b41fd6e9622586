"""A gateway in a process of its own, over a new state folder, and what it takes of the memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from counterpose_processes.ports import free_port

MEBIBYTE = 2**20
START_SECONDS = 60.0


@dataclass(frozen=True)
class ServedGateway:
    """A running gateway; its services do not exist, as nothing here asks them."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its settings, for a worker beside it."""

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    def memory(self) -> float:
        """Return the resident memory now, in MiB."""
        return self._status("VmRSS")

    def peak(self) -> float:
        """Return the greatest resident memory since `forget_peak`, in MiB."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Make the present memory the peak."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def processor_seconds(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stored_bytes(self) -> int:
        """Return the bytes of all files in the store."""
        return sum(path.stat().st_size for path in (self.folder / "store").rglob("*") if path.is_file())

    def _status(self, field: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 / MEBIBYTE for line in lines if line.startswith(f"{field}:"))


@contextmanager
def served_gateway(
    folder: Path, *, python_path: str | None = None, **settings: object
) -> Iterator[ServedGateway]:
    """Start a gateway with its state in the new ``folder``, and end it with the block.

    ``python_path``: where its sources are; default: where those of this process are.
    """
    folder.mkdir(parents=True)
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text("a-secret-of-some-length", encoding="utf-8")
    port = free_port()
    own = {f"COUNTERPOSE_{name.upper()}": str(value) for name, value in settings.items()}
    env = {
        **own, "PYTHONPATH": python_path or os.pathsep.join(sys.path), "COUNTERPOSE_STATE_DIR": str(folder),
        "COUNTERPOSE_PORT": str(port), "COUNTERPOSE_SERVICES_URL": f"http://127.0.0.1:{free_port()}",
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "counterpose_gateway.main", "serve"]
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log)
    try:
        _wait_until_ready(process, port)
        yield ServedGateway(process, port, folder, env)
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError(f"the gateway on port {port} did not start; its log is in its state folder")
