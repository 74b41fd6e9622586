"""A stack: services, gateway and worker on this machine's loopback, started, watched and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from shlex import quote

from counterpose._stack import readiness
from counterpose._stack.demo_datasets import DemoDatasets
from counterpose._stack.environment import SUITE_VARIABLE, environment_of, suite_of
from counterpose._stack.programs import GATEWAY, SERVICES, Programs
from counterpose._stack.readiness import last_lines, require_free
from counterpose._stack.record import (
    DEFAULT_PORT,
    DEFAULT_SERVICES_PORT,
    PROCESSES,
    ProcessName,
    Record,
    read_record,
    write_record,
)
from counterpose._stack.state_folder import default_state, locked, prepare, state_option
from counterpose_core.errors import BackendUnavailable, DeadlineExceeded, InvalidRequest
from counterpose_core.suite_files import suite_sections
from counterpose_core.weights_reading import Patience, WeightsReading, current_readings
from counterpose_processes.ports import LOOPBACK, free_port, is_free
from counterpose_processes.process import KILL_TIMEOUT_S, POLL_S, Process
from counterpose_processes.program import Program
from counterpose_processes.signals import ended_by_signals, undisturbed

START_TIMEOUT_S = 600.0
"""How long a start may go on without a sign of progress: no service ready, and no byte of weights read."""
DEMO_DATASET = "demo"
DEMO_PER_CLASS = 6

Tell = Callable[[str], None]
"""Called with each step, in a few words."""
Watch = Callable[[Sequence[WeightsReading]], None]
"""Called with the files of weights that services read now."""
Images = Callable[[DemoDatasets], None]
"""Renders and registers what a command tests on."""


def demo_images(datasets: DemoDatasets) -> None:
    """Render and register the images of the first steps."""
    datasets.register_demo(DEMO_DATASET, DEMO_PER_CLASS)


@dataclass(frozen=True)
class Stack:
    """One Counterpose on this machine: where it keeps its state, where it listens, whose programs it runs.

    ``started`` names what this object has started; ``tell`` is called with each step, and ``watch`` with what
    the services read while they start.
    """

    state: Path = field(default_factory=default_state)
    port: int = DEFAULT_PORT
    services_port: int = DEFAULT_SERVICES_PORT
    programs: Programs | None = None
    tell: Tell = field(default=lambda _: None, repr=False)
    watch: Watch = field(default=lambda _: None, repr=False)
    suite: str | None = None
    started: list[ProcessName] = field(default_factory=list)
    _children: dict[ProcessName, Program] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        # The processes run in the state folder, where a relative path would mean another one.
        object.__setattr__(self, "state", self.state.absolute())

    @property
    def url(self) -> str:
        """The gateway's address."""
        return f"http://{LOOPBACK}:{self.port}"

    def log(self, name: ProcessName) -> Path:
        """The file that a process writes to."""
        return self.state / f"{name}.log"

    def running(self) -> dict[ProcessName, Process]:
        """Return what was started from this state folder and still runs.

        Raises:
            InvalidRequest: the record of it is damaged.
        """
        record = read_record(self.state)
        return {} if record is None else record.running()

    def pids(self) -> dict[ProcessName, int]:
        """Return the process ids of what runs."""
        return {name: process.pid for name, process in self.running().items()}

    def environment(self) -> dict[str, str]:
        """Return the environment of every process of the stack."""
        return environment_of(self.state, self.port, self.services_port, suite=self.suite)

    def datasets(self) -> DemoDatasets:
        """Return what renders and registers the demo's datasets in this stack."""
        return DemoDatasets(self.state, self._installed(), self.environment())

    def up(self, images: Images | None = demo_images) -> bool:
        """Start what does not run yet; return when the gateway says that it is ready.

        Args:
            images: called while Ray starts; not called if everything runs already. None prepares none.

        Returns:
            Whether anything was started.

        Raises:
            InvalidRequest: a port is taken, a program is not installed, or another command is at work.
            BackendUnavailable: a process ended while it started.
            DeadlineExceeded: a process was not ready in time.
        """
        # Checked first, so that a missing program leaves no folder behind.
        self._installed()
        prepare(self.state)
        with locked(self.state):
            running = self.running()
            if set(running) == set(PROCESSES) and readiness.waited_for(self.url) is None:
                return False
            self._require_ports(running)
            # Of an earlier start of this object, only what still runs must stay alive through this one.
            self.started[:] = [name for name in self.started if name in running]
            self._start_all(images)
            return True

    def down(self) -> list[ProcessName]:
        """Stop what was started from this state folder, nothing else; return the names of what was stopped.

        Raises:
            InvalidRequest: the record is damaged, or another command is at work.
        """
        if not self.state.exists():
            return []
        with undisturbed(), locked(self.state):
            return self._stop(PROCESSES)

    def stop_started(self) -> None:
        """Stop what this object has started; what ran before goes on."""
        if self.started:
            # Patient, or a command at work in another terminal would leave our processes running.
            with undisturbed(), locked(self.state, patient=True):
                self._stop(tuple(self.started))
        self.started.clear()

    @contextmanager
    def temporarily(self, images: Images) -> Iterator[None]:
        """Start what does not run yet, with these images; stop at the end what was started here."""
        with ended_by_signals():
            try:
                if not self.up(images):
                    images(self.datasets())
                yield
            finally:
                self.stop_started()

    def left_running(self) -> None:
        """Start what does not run yet and leave it running; an attempt that fails leaves nothing of it.

        Raises:
            UnknownModel, InvalidRequest: the suite does not exist, or its file cannot be read.
        """
        # Rendered images are for suites that edit them; photographs are the user's own.
        edits = "editor" in suite_sections(self.environment()[SUITE_VARIABLE])
        with ended_by_signals():
            try:
                self.up(demo_images if edits else None)
            except BaseException:
                self.stop_started()
                raise

    def _start_all(self, images: Images | None) -> None:
        self.tell("starting Ray and the services")
        self._start("services", SERVICES, "up")
        # Meanwhile Ray starts, which takes longer.
        if images is not None:
            self.tell("preparing the demo's images")
            images(self.datasets())
        # Missing weights end the services within seconds.
        self._require_alive()
        self._start("gateway", GATEWAY, "serve")
        self._wait_for(lambda: "no answer" if readiness.health(self.url) is None else None)
        self._start("worker", GATEWAY, "work")
        ready = readiness.Readiness(lambda: readiness.waited_for(self.url))

        def look() -> str | None:
            waited_for = ready()
            self.tell("ready" if waited_for is None else waited_for)
            return waited_for

        self._wait_for(look)

    def _require_ports(self, running: Collection[ProcessName]) -> None:
        suite = "" if self.suite is None else f" --suite {quote(self.suite)}"
        ports = {} if "gateway" in running else {"--port": self.port}
        ports |= {} if "services" in running else {"--services-port": self.services_port}
        require_free(ports, f"{state_option(self.state)}{suite}")

    def _start(self, name: ProcessName, program: str, verb: str) -> None:
        """Start one process unless it runs."""
        running = self.running()
        if name in running:
            return
        # Another command may have stopped a child of ours.
        self._reap(running)
        command = self._installed().command(program, verb)
        child = Program(command, environment=self.environment(), folder=self.state, log=self.log(name))
        self._children[name] = child
        self.started.append(name)
        self._remember(running | {name: Process.of(child.pid)})

    def _wait_for(self, look: Callable[[], str | None]) -> None:
        """Block until ``look`` names nothing more; give up when a process has ended or nothing moves on."""
        patience = Patience(START_TIMEOUT_S)
        while (waited_for := look()) is not None:
            self._require_alive()
            read = current_readings(self.state)
            self.watch(read)
            if not patience.sees((waited_for, read)):
                reading = "".join(f"; {one}" for one in read)
                raise DeadlineExceeded(
                    f"Counterpose was not ready, and nothing moved on for {START_TIMEOUT_S:.0f} s "
                    f"({waited_for}{reading}); the logs lie in {str(self.state)!r}"
                )
            time.sleep(POLL_S)
        self._require_alive()

    def _require_alive(self) -> None:
        """Raise if one of these children has ended; the message quotes its last lines."""
        running = self.running()
        for name in self.started:
            if name not in running:
                child = self._children[name]
                message = f"the {name} ended while starting (exit code {child.poll()})"
                raise BackendUnavailable(f"{message}; {str(self.log(name))!r} says:\n{last_lines(child)}")

    def _stop(self, names: Collection[ProcessName]) -> list[ProcessName]:
        running = self.running()
        stopped: list[ProcessName] = [name for name in PROCESSES if name in names and name in running]
        for name in stopped:
            self.tell(f"stopping the {name}")
            running.pop(name).stop()
        self._remember(running)
        self._reap(running)
        return stopped

    def _reap(self, running: Collection[ProcessName]) -> None:
        """Collect what has ended: a child stays a zombie until its parent waits for it."""
        for name, child in self._children.items():
            if name not in running:
                # Its other threads may end shortly after its first one.
                child.wait(KILL_TIMEOUT_S)

    def _remember(self, running: dict[ProcessName, Process]) -> None:
        environment = self.environment()
        record = Record(
            port=self.port,
            services_port=self.services_port,
            suite=environment[SUITE_VARIABLE],
            version=metadata.version("counterpose"),
            processes=running,
        )
        write_record(self.state, record)

    def _installed(self) -> Programs:
        return self.programs or Programs.installed()


def open_stack(
    state: Path | None = None,
    *,
    port: int | None = None,
    services_port: int | None = None,
    any_port: bool = False,
    suite: str | None = None,
    tell: Tell = lambda _: None,
    watch: Watch = lambda _: None,
) -> Stack:
    """Return the stack of a state folder, on its own ports if it runs.

    Args:
        state: the state folder; None is the user's own.
        port: where the gateway listens; None is where it runs, else the default.
        services_port: where the services listen; None likewise.
        any_port: take another port where a default is taken by another program.
        suite: the suite to start with; None is that of the environment.
        tell: called with each step.
        watch: called with the files of weights that services read while they start.

    Raises:
        InvalidRequest: it runs on other ports or with another suite than those that were given, or its record
            is damaged.
    """
    folder = default_state() if state is None else state.absolute()
    record = read_record(folder)
    if record is not None and record.running():
        _require_same(folder, "--port", port, record.port)
        _require_same(folder, "--services-port", services_port, record.services_port)
        _require_suite(folder, suite, record.suite)
        # What is missing is started with the suite of the rest.
        return Stack(folder, record.port, record.services_port, suite=record.suite, tell=tell, watch=watch)
    return Stack(
        folder,
        port or _default(DEFAULT_PORT, any_port),
        services_port or _default(DEFAULT_SERVICES_PORT, any_port),
        suite=suite,
        tell=tell,
        watch=watch,
    )


def _require_suite(state: Path, given: str | None, running: str) -> None:
    if given is not None and suite_of({SUITE_VARIABLE: given}) != running:
        raise InvalidRequest(
            f"--suite {given}: Counterpose already runs from this state folder with the suite {running!r}; "
            f"{_way_out(state)}"
        )


def _require_same(state: Path, option: str, given: int | None, running: int) -> None:
    if given not in (None, running):
        raise InvalidRequest(
            f"{option} {given}: Counterpose already runs from this state folder on port {running}; "
            f"{_way_out(state)}"
        )


def _way_out(state: Path) -> str:
    ports = f"--port {free_port()} --services-port {free_port()}"
    return (
        f"stop it with `counterpose down{state_option(state)}`, or start another one beside it with "
        f"`counterpose up --state FOLDER {ports}`"
    )


def _default(port: int, any_port: bool) -> int:
    return port if not any_port or is_free(port) else free_port()
