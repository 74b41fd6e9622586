"""Which stack a command means: the one that runs from its state folder, else a new one on given ports."""

from __future__ import annotations

from pathlib import Path

from counterpose._stack.record import DEFAULT_PORT, DEFAULT_SERVICES_PORT, read_record
from counterpose._stack.stack import Stack, Tell, Watch
from counterpose._stack.state_folder import default_state
from counterpose_core.errors import InvalidRequest
from counterpose_processes.ports import free_port, is_free


def open_stack(
    state: Path | None = None,
    *,
    port: int | None = None,
    services_port: int | None = None,
    any_port: bool = False,
    tell: Tell = lambda _: None,
    watch: Watch = lambda _: None,
) -> Stack:
    """Return the stack of a state folder, on its own ports if it runs.

    Args:
        state: the state folder; None is the user's own.
        port: where the gateway listens; None is where it runs, else the default.
        services_port: where the services listen; None likewise.
        any_port: take another port where a default is taken by another program.
        tell: called with each step.
        watch: called with the files of weights that services read while they start.

    Raises:
        InvalidRequest: it runs on other ports than those that were given, or its record is damaged.
    """
    folder = default_state() if state is None else state.absolute()
    record = read_record(folder)
    if record is not None and record.running():
        _require_same("--port", port, record.port)
        _require_same("--services-port", services_port, record.services_port)
        return Stack(folder, record.port, record.services_port, tell=tell, watch=watch)
    return Stack(
        folder,
        port or _default(DEFAULT_PORT, any_port),
        services_port or _default(DEFAULT_SERVICES_PORT, any_port),
        tell=tell,
        watch=watch,
    )


def _require_same(option: str, given: int | None, running: int) -> None:
    if given not in (None, running):
        message = f"{option} {given}: Counterpose already runs from this state folder on port {running}"
        raise InvalidRequest(f"{message}; stop it with `counterpose down`, or choose another --state")


def _default(port: int, any_port: bool) -> int:
    return port if not any_port or is_free(port) else free_port()
