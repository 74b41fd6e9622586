"""`counterpose-gateway serve` and `work` as a user starts them, and what they take of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.01


class Program:
    """A running program."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def process(self) -> int:
        """Its number."""
        return self._process.pid

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)

    def resident_mb(self) -> float:
        """Return its resident memory in MB of 10^6 bytes."""
        pages = int(self._of_system("statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def open_files(self) -> int:
        """Return how many file descriptors it has open."""
        return len(list(self._of_system("fd").iterdir()))

    def processor_seconds(self) -> float:
        """Return the processor time that it has taken."""
        fields = self._of_system("stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def _of_system(self, name: str) -> Path:
        return Path(f"/proc/{self._process.pid}") / name


def state_folder(folder: Path) -> Path:
    """Make a state folder with a secret in ``folder`` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    secret = folder / "secret"
    secret.write_text("a-secret-of-some-length", encoding="utf-8")
    secret.chmod(0o600)
    return folder


@contextmanager
def program(*command: str, environment: Mapping[str, str], log: Path) -> Iterator[Program]:
    """Run a Python module until the block ends; what it says goes to ``log``."""
    with log.open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            stdout=said,
            stderr=said,
        )
    try:
        yield Program(process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)


def gateway_environment(state: Path, port: int, services_port: int) -> dict[str, str]:
    """Return the settings of a gateway whose state is in ``state``."""
    return {
        "COUNTERPOSE_STATE_DIR": str(state),
        "COUNTERPOSE_PORT": str(port),
        "COUNTERPOSE_SERVICES_URL": f"http://127.0.0.1:{services_port}",
    }


def wait_until_answered(port: int, of: Program) -> None:
    """Wait until the server answers `/healthz`.

    Raises:
        RuntimeError: it ended, or did not answer within a minute.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    with httpx.Client(trust_env=False) as http:
        while time.monotonic() < end and not of.has_ended():
            try:
                if http.get(f"http://127.0.0.1:{port}/healthz").is_success:
                    return
            except httpx.TransportError:
                time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"nothing answers at port {port}; look into the program's log")
