"""Starts and stops Faultline on loopback: five services on Ray, gateway, worker, the demo dataset."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 60.0
DEMO_SPLIT = "development"
DEMO_PER_CLASS = 6
PROCESSES = ("worker", "gateway", "services")
"""In the order they are stopped."""


def answers(url: str) -> bool:
    """Whether a GET is answered with success."""
    try:
        with urllib.request.urlopen(url, timeout=2.0) as response:
            return int(response.status) == 200
    except (urllib.error.URLError, OSError):
        return False


def alive(pid: int) -> bool:
    """Whether this process still runs; one that has ended and waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def stop(pid: int) -> None:
    """End one process: SIGTERM first, SIGKILL when it does not listen."""
    for sent, patience in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
        if not alive(pid):
            return
        os.kill(pid, sent)
        deadline = time.monotonic() + patience
        while alive(pid) and time.monotonic() < deadline:
            time.sleep(0.2)


def program(name: str) -> str:
    """A console script of the environment that runs this file."""
    return str(Path(sys.executable).parent / name)


@dataclass(frozen=True)
class Stack:
    """One Faultline on this machine: where it keeps its state and where it listens."""

    state: Path = ROOT / ".faultline"
    port: int = 8080
    services_port: int = 8101
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list, repr=False)

    @property
    def url(self) -> str:
        """The gateway's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def ready(self) -> bool:
        """Whether gateway and services answer."""
        return answers(f"{self.url}/readyz")

    @property
    def _pid_file(self) -> Path:
        return self.state / "stack.json"

    def pids(self) -> dict[str, int]:
        """The processes that were started, by name."""
        if not self._pid_file.exists():
            return {}
        pids: dict[str, int] = json.loads(self._pid_file.read_text(encoding="utf-8"))
        return pids

    def environment(self) -> dict[str, str]:
        """What every process of the stack is told."""
        secret = self.state / "secret"
        if not secret.exists():
            secret.touch(mode=0o600)
            secret.write_text(secrets.token_hex(32), encoding="utf-8")
        return dict(os.environ) | {
            "FAULTLINE_STATE_DIR": str(self.state),
            "FAULTLINE_PORT": str(self.port),
            "FAULTLINE_SERVICES_PORT": str(self.services_port),
            "FAULTLINE_SERVICES_URL": f"http://127.0.0.1:{self.services_port}",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def start(self, name: str, command: Sequence[str]) -> int:
        """Start one process in a session of its own; its output goes to a log."""
        with (self.state / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment(),
                start_new_session=True,
                cwd=ROOT,
            )
        self._children.append(process)
        self._pid_file.write_text(json.dumps(self.pids() | {name: process.pid}), encoding="utf-8")
        return process.pid

    def start_worker(self) -> int:
        """Start the process that leases and runs items."""
        return self.start("worker", [program("faultline-gateway"), "work"])

    def wait_for(self, url: str, pid: int, name: str) -> None:
        """Block until ``url`` answers; give up when the process has ended or time is out."""
        log = self.state / f"{name}.log"
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(url):
            if not alive(pid):
                raise SystemExit(f"{name} ended before it was ready; see {log}")
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} was not ready after {START_TIMEOUT_S:.0f} s; see {log}")
            time.sleep(0.5)

    def register(self, name: str, per_class: int) -> None:
        """Render a demo dataset and make it known to the gateway."""
        folder = self.state / "datasets" / name
        env = self.environment()
        if not folder.exists():
            rendered = [sys.executable, "-m", "faultline_miniature.world", str(folder)]
            rendered += ["--split", DEMO_SPLIT, "--per-class", str(per_class)]
            subprocess.run(rendered, check=True, env=env, cwd=ROOT)
        command = [program("faultline-gateway"), "register-dataset", name, str(folder)]
        subprocess.run(command, check=True, env=env, cwd=ROOT)

    def up(self, per_class: int = DEMO_PER_CLASS) -> None:
        """Start what is not running yet; return when the gateway says it is ready."""
        self.state.mkdir(mode=0o700, exist_ok=True, parents=True)
        if self.ready:
            return
        services = self.start("services", [program("faultline-services"), "up"])
        self.register("demo", per_class)
        gateway = self.start("gateway", [program("faultline-gateway"), "serve"])
        self.wait_for(f"{self.url}/healthz", gateway, "gateway")
        self.start_worker()
        self.wait_for(f"{self.url}/readyz", services, "services")

    def down(self) -> None:
        """Stop, by pid, what `up` started."""
        pids = self.pids()
        for name in PROCESSES:
            if name in pids:
                stop(pids[name])
        for child in self._children:
            child.wait()
        self._children.clear()
        self._pid_file.unlink(missing_ok=True)


def main() -> None:
    """``stack.py up`` or ``stack.py down``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["up", "down"])
    stack = Stack()
    if parser.parse_args().verb == "down":
        stack.down()
        return
    try:
        stack.up()
    except BaseException:
        stack.down()
        raise
    sys.stdout.write(f"Faultline answers at {stack.url}; stop it with `make down`\n")


if __name__ == "__main__":
    main()
