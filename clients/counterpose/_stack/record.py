"""``stack.json``: what was started from a state folder, and on which ports."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from counterpose_core.errors import InvalidRequest
from counterpose_processes.process import Process
from counterpose_processes.system import working_folders

ProcessName = Literal["worker", "gateway", "services"]
PROCESSES: tuple[ProcessName, ...] = ("worker", "gateway", "services")
"""In the order they are stopped: the worker first, which would take a stopped service for a failing one."""
RECORD = "stack.json"
DEFAULT_PORT = 8080
DEFAULT_SERVICES_PORT = 8101


class Record(BaseModel, frozen=True, extra="forbid"):
    """The processes of a stack, its ports, its suite, and the Counterpose that started it."""

    port: int = Field(ge=1, le=65535)
    services_port: int = Field(ge=1, le=65535)
    suite: str
    version: str
    processes: dict[ProcessName, Process]

    def running(self) -> dict[ProcessName, Process]:
        """Return those processes that still run."""
        return {name: process for name, process in self.processes.items() if process.alive()}


def read_record(state: Path) -> Record | None:
    """Read what was started from a state folder; None if nothing was.

    Raises:
        InvalidRequest: the record is damaged.
    """
    file = state / RECORD
    if not file.exists():
        return None
    try:
        return Record.model_validate_json(file.read_bytes())
    except ValidationError as error:
        # The processes that it named may still run: only a person can tell.
        message = f"{str(file)!r} is damaged: stop the processes that it names, then remove it"
        raise InvalidRequest(message) from error


def write_record(state: Path, record: Record) -> None:
    """Write the record, whole or not at all; remove it when no process is left in it."""
    file = state / RECORD
    if not record.processes:
        file.unlink(missing_ok=True)
        return
    written = file.with_suffix(".new")
    written.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    written.replace(file)


def state_at(port: int) -> Path | None:
    """Return the state folder of the Counterpose that listens there; None where that is not known.

    Its processes run in their state folder, so that those of this machine tell it.
    """
    for folder in dict.fromkeys(working_folders()):
        with suppress(InvalidRequest, OSError):
            record = read_record(folder)
            if record is not None and port in (record.port, record.services_port) and record.running():
                return folder
    return None
