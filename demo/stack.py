"""Starts and stops Faultline on loopback: five services on Ray, gateway, worker, the demo dataset."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 60.0
LOOK_S = 0.2
DEMO_PER_CLASS = 6
PROCESSES = ("worker", "gateway", "services")
"""In the order they are stopped: the worker first, which would take a stopped service for a failing one."""


@dataclass(frozen=True)
class Process:
    """A process and when it began, in clock ticks since boot: a pid alone is given to others in time."""

    pid: int
    began: int

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return began(self.pid) == self.began

    def stop(self) -> None:
        """End it: SIGTERM first, SIGKILL to it and its children when it does not listen."""
        for sent, patience in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
            if not self.alive():
                return
            # Between the look and the signal it may have ended by itself.
            with suppress(ProcessLookupError):
                # It leads a group of its own; a killed launcher could not stop Ray's processes any more.
                os.killpg(self.pid, sent) if sent == signal.SIGKILL else os.kill(self.pid, sent)
            self._wait(patience)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.alive() and time.monotonic() < deadline:
            time.sleep(LOOK_S)


def answers(url: str) -> bool:
    """Whether a GET is answered with success."""
    try:
        with urllib.request.urlopen(url, timeout=2.0) as response:
            return int(response.status) == 200
    except (urllib.error.URLError, OSError):
        return False


def began(pid: int) -> int | None:
    """When a process began; None when it has ended, also if it still waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name, in which blanks and brackets may stand.
    state, *rest = stat.rsplit(")", 1)[1].split()
    return None if state == "Z" else int(rest[18])


@contextmanager
def undisturbed() -> Iterator[None]:
    """Do not let a second Ctrl-C leave behind what the first one is stopping."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Leave by way of every ``finally`` when somebody stops us or closes the terminal."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Stack:
    """One Faultline on this machine: where it keeps its state, where it listens, whose programs it runs."""

    state: Path = ROOT / ".faultline"
    port: int = 8080
    services_port: int = 8101
    programs: Path = Path(sys.executable).parent
    started: list[str] = field(default_factory=list)
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
    def _record(self) -> Path:
        return self.state / "stack.json"

    def running(self) -> dict[str, Process]:
        """What was started and still runs, by name, whoever started it.

        Raises:
            SystemExit: the record of it cannot be read.
        """
        if not self._record.exists():
            return {}
        known = self._record.read_text(encoding="utf-8")
        try:
            found = {name: Process(**process) for name, process in json.loads(known).items()}
        except (AttributeError, TypeError, ValueError):
            # Whatever it once named may still run: only a person can tell.
            raise SystemExit(f"{self._record} is damaged: stop what it names, then remove it") from None
        return {name: process for name, process in found.items() if process.alive()}

    def pids(self) -> dict[str, int]:
        """Their process ids, by name."""
        return {name: process.pid for name, process in self.running().items()}

    def environment(self) -> dict[str, str]:
        """What every process of the stack is told."""
        secret = self.state / "secret"
        if not secret.exists():
            # Made unreadable to others before anything stands in it.
            secret.touch(mode=0o600)
            secret.write_text(secrets.token_hex(32), encoding="utf-8")
        return dict(os.environ) | {
            "FAULTLINE_STATE_DIR": str(self.state),
            "FAULTLINE_PORT": str(self.port),
            "FAULTLINE_SERVICES_PORT": str(self.services_port),
            "FAULTLINE_SERVICES_URL": f"http://127.0.0.1:{self.services_port}",
            # One thread a process: a dozen processes with a pool each stand in each other's way on 2 cores.
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def start(self, name: str, *command: str) -> None:
        """Start one process unless it runs, in a session of its own; its output goes to a log."""
        running = self.running()
        if name in running:
            return
        with (self.state / f"{name}.log").open("ab") as log:
            # A session of its own: Ctrl-C reaches us alone, and we stop the processes in their order.
            process = subprocess.Popen(
                [self._program(command[0]), *command[1:]],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment(),
                start_new_session=True,
                cwd=ROOT,
            )
        self._children.append(process)
        self.started.append(name)
        running[name] = Process(process.pid, began(process.pid) or 0)
        self._remember(running)

    def start_worker(self) -> None:
        """Start the process that leases and runs items."""
        self.start("worker", "faultline-gateway", "work")

    def wait_for(self, url: str, name: str) -> None:
        """Block until ``url`` answers; give up when the process has ended or time is out."""
        log = self.state / f"{name}.log"
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(url):
            if name not in self.running():
                raise SystemExit(f"{name} ended before it was ready; see {log}")
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} was not ready after {START_TIMEOUT_S:.0f} s; see {log}")
            time.sleep(LOOK_S)

    def register(self, name: str, per_class: int) -> None:
        """Render a demo dataset and make it known to the gateway; captions are left to the captioner."""
        self._register(name, ("faultline_miniature.training.held_out", "--per-class", str(per_class)))

    def register_user_dataset(self, name: str, per_class: int) -> None:
        """Render a dataset whose classes look unlike what their names bring up, and make it known."""
        drawn = ("faultline_miniature.world", "--distribution", "user", "--per-class", str(per_class))
        self._register(name, drawn)

    def _register(self, name: str, module: Sequence[str]) -> None:
        folder = self.state / "datasets" / name
        if not folder.exists():
            # Rendered beside and renamed: what an interrupt leaves behind must not pass for a dataset.
            part = folder.with_name(f"{name}.part")
            shutil.rmtree(part, ignore_errors=True)
            self._run("python", "-m", module[0], str(part), *module[1:])
            part.rename(folder)
        self._run("faultline-gateway", "register-dataset", name, str(folder))

    def up(self, per_class: int = DEMO_PER_CLASS) -> None:
        """Start what is not running yet; return when the gateway says it is ready."""
        self.state.mkdir(mode=0o700, exist_ok=True, parents=True)
        running = self.running()
        # Ready without a worker of ours is another's stack on this port, or one whose worker has died.
        if self.ready and ("worker" in running or "gateway" not in running):
            return
        self.start("services", "faultline-services", "up")
        self.register("demo", per_class)
        self.start("gateway", "faultline-gateway", "serve")
        self.wait_for(f"{self.url}/healthz", "gateway")
        self.start_worker()
        self.wait_for(f"{self.url}/readyz", "services")

    def down(self, names: Collection[str] = PROCESSES) -> None:
        """Stop what was started under these names, and nothing else."""
        with undisturbed():
            running = self.running()
            for name in PROCESSES:
                if name in names and name in running:
                    running.pop(name).stop()
            self._remember(running)
            self._reap()

    def shown(self, show: Callable[[], None]) -> float:
        """Start what does not run yet, ``show`` something on it, stop what was started; tell the seconds."""
        began = time.monotonic()
        with ended_by_signals():
            try:
                self.up()
                show()
            finally:
                self.stop_started()
        return time.monotonic() - began

    def stop_started(self) -> None:
        """Stop what this object has started; what ran before goes on."""
        self.down(tuple(self.started))
        self.started.clear()

    def _program(self, name: str) -> str:
        return str(self.programs / name)

    def _reap(self) -> None:
        # A child of ours stays a zombie until it is waited for.
        going_on = [child for child in self._children if child.poll() is None]
        self._children[:] = going_on

    def _remember(self, running: dict[str, Process]) -> None:
        if not running:
            self._record.unlink(missing_ok=True)
            return
        known = {name: asdict(process) for name, process in running.items()}
        self._record.write_text(json.dumps(known), encoding="utf-8")

    def _run(self, *command: str) -> None:
        subprocess.run(
            [self._program(command[0]), *command[1:]], check=True, env=self.environment(), cwd=ROOT
        )


def main(argv: Sequence[str] | None = None, stack: Stack | None = None) -> None:
    """``stack.py up`` or ``stack.py down``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["up", "down"])
    stack = stack or Stack()
    if parser.parse_args(argv).verb == "down":
        stack.down()
        return
    with ended_by_signals():
        try:
            stack.up()
        except BaseException:
            stack.stop_started()
            raise
    sys.stdout.write(f"Faultline answers at {stack.url}; stop it with `make down`\n")


if __name__ == "__main__":
    main()
