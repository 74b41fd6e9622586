"""What runs on this machine, where, since when, in which version, and whether it can take a run."""

from __future__ import annotations

from datetime import datetime
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel

from counterpose._stack import readiness
from counterpose._stack.record import PROCESSES, ProcessName, read_record
from counterpose._stack.stack import Stack
from counterpose._sync.client import Client
from counterpose_core.contract.services import ServiceList, ServiceState, StoreUse
from counterpose_core.errors import CounterposeError
from counterpose_core.weights_reading import current_readings

SUITE_DISTRIBUTION = "counterpose-miniature-suite"


class ProcessStatus(BaseModel, frozen=True):
    """A process that ``up`` started; without a pid it does not run."""

    name: ProcessName
    pid: int | None
    started_at: datetime | None
    log: Path


class StackStatus(BaseModel, frozen=True):
    """``counterpose status --json``.

    ``waiting_for`` says what is missing where ``ready`` is false. ``gateway_version`` is what the running
    gateway says of itself. ``suite_version`` is that of the installed weights; a clone has them in its tree.
    """

    ready: bool
    waiting_for: str | None
    url: str
    state: Path
    version: str
    gateway_version: str | None
    suite: str | None
    suite_version: str | None
    processes: list[ProcessStatus]
    services: list[ServiceState]
    store: StoreUse | None = None
    operations: list[str] = []


def status_of(stack: Stack) -> StackStatus:
    """Look at every process of a stack, and ask its gateway.

    Raises:
        InvalidRequest: the record of what runs is damaged.
    """
    record = read_record(stack.state)
    running = {} if record is None else record.running()
    missing = [name for name in PROCESSES if name not in running]
    waiting_for = f"not running: {', '.join(missing)}" if missing else readiness.waited_for(stack.url)
    health = readiness.health(stack.url) if "gateway" in running else None
    told = ServiceList(services=[]) if health is None else _services(stack)
    return StackStatus(
        ready=waiting_for is None,
        waiting_for=waiting_for,
        url=stack.url,
        state=stack.state,
        version=metadata.version("counterpose"),
        gateway_version=None if health is None else health.version,
        suite=record.suite if running and record is not None else None,
        suite_version=_suite_version(),
        processes=[
            ProcessStatus(
                name=name,
                pid=running[name].pid if name in running else None,
                started_at=running[name].started_at if name in running else None,
                log=stack.log(name),
            )
            for name in reversed(PROCESSES)
        ],
        services=told.services,
        store=told.store,
        operations=told.operations,
    )


def _services(stack: Stack) -> ServiceList:
    """Return the services' states; one that loads its models says which file it reads."""
    try:
        with Client(stack.url, timeout=readiness.READY_TIMEOUT_S) as client:
            found = client.services.list()
    except CounterposeError:
        # Whether the gateway is ready is known without it; a key may be missing here.
        return ServiceList(services=[])
    read = {one.service: one.words for one in current_readings(stack.state)}
    told = [
        one if one.ready or one.service not in read else one.model_copy(update={"detail": read[one.service]})
        for one in found.services
    ]
    return found.model_copy(update={"services": told})


def _suite_version() -> str | None:
    try:
        return metadata.version(SUITE_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
