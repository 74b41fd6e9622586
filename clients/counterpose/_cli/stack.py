"""``counterpose up``, ``down`` and ``status`` of this machine's Counterpose, and ``counterpose services``."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Annotated
from urllib.parse import urlsplit

import typer

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.options import AsJson, Url
from counterpose._cli.steps import Steps
from counterpose._cli.tables import Table
from counterpose._cli.terminal import connected, exit_on_error, print_note, print_result, show
from counterpose._stack import DEFAULT_PORT, Stack, StackStatus, open_stack, state_option, status_of
from counterpose._stack.environment import DEFAULT_SUITE, SUITE_VARIABLE
from counterpose._stack.readiness import health
from counterpose._stack.record import state_at
from counterpose._stack.status import SUITE_DISTRIBUTION
from counterpose_core.contract.services import ServiceState, StoreUse
from counterpose_core.errors import InvalidRequest
from counterpose_core.types import format_si
from counterpose_processes.ports import LOOPBACK

LOCAL_HOSTS = ("127.0.0.1", "localhost")

State = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of ledger, images, secret and logs; default: COUNTERPOSE_STATE_DIR, else your own "
        "data folder.",
        show_default=False,
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        metavar="PORT", min=1, max=65535, envvar="COUNTERPOSE_PORT", show_default=False,
        help="Where the gateway listens; default: 8080.",
    ),
]  # fmt: skip
ServicesPort = Annotated[
    int | None,
    typer.Option(
        metavar="PORT", min=1, max=65535, envvar="COUNTERPOSE_SERVICES_PORT", show_default=False,
        help="Where the services listen; default: 8101.",
    ),
]  # fmt: skip
Suite = Annotated[
    str | None,
    typer.Option(
        metavar="SUITE", help="Suite to start with: a name, or a TOML file; default: COUNTERPOSE_SUITE, else "
        "miniature.", show_default=False,
    ),
]  # fmt: skip


def up(
    state: State = None, port: Port = None, services_port: ServicesPort = None, suite: Suite = None
) -> None:
    """Start Counterpose on this machine and leave it running."""
    with exit_on_error(), Steps() as steps:
        stack = open_stack(
            state, port=port, services_port=services_port, suite=suite, tell=steps.tell, watch=steps.watch
        )
        stack.left_running()
    print_result(_greeting(stack, state))


def require_suite(suite: str | None, url: str) -> None:
    """Start Counterpose on this machine with a suite, where it does not run yet; without one, do nothing.

    Raises:
        InvalidRequest: it runs with another suite, or ``url`` is not where it would run.
    """
    if suite is None:
        return
    address = urlsplit(url)
    local = address.hostname in LOCAL_HOSTS
    services_port = os.environ.get("COUNTERPOSE_SERVICES_PORT")
    with Steps() as steps:
        stack = open_stack(
            # One that runs there from another folder is the one that is meant.
            state_at(address.port or DEFAULT_PORT) if local else None,
            port=address.port if local else None,
            services_port=int(services_port) if services_port else None,
            suite=suite,
            tell=steps.tell,
            watch=steps.watch,
        )
        if not local:
            raise InvalidRequest(
                f"--suite starts Counterpose on this machine, at {stack.url}, but the run is for {url}; "
                "leave out --suite, or --url"
            )
        stack.left_running()
    if stack.started:
        print_note(f"Counterpose runs at {stack.url} until `counterpose down{state_option(stack.state)}`")


def down(state: State = None) -> None:
    """Stop what `counterpose up` started."""
    with exit_on_error(), Steps() as steps:
        stack = open_stack(state, tell=steps.tell)
        stopped = stack.down()
    message = f"stopped: {', '.join(stopped)}" if stopped else "nothing was running"
    print_result(f"{message} (state folder {str(stack.state)!r})")
    if not stopped:
        _note_another()


def status(state: State = None, as_json: AsJson = False) -> None:
    """Show what runs, where, since when, and whether it is ready; exit code 3 if it is not."""
    with exit_on_error():
        found = status_of(open_stack(state))
    show(found, _described(found, state), as_json)
    if not found.ready:
        if not any(process.pid for process in found.processes):
            _note_another()
        raise typer.Exit(ExitCode.INCOMPLETE)


def services(as_json: AsJson = False, url: Url = None) -> None:
    """Show which services are ready; exit code 3 if none is."""
    with connected(url) as client:
        found = client.services.list()
        rows = [(each.service, _state_of(each), "" if each.ready else each.detail) for each in found.services]
        show(found, str(Table(("service", "state", "detail"), rows)), as_json)
    if found.services and not any(each.ready for each in found.services):
        print_note("no service is ready; on this machine, `counterpose up` starts them")
        raise typer.Exit(ExitCode.INCOMPLETE)


def _note_another() -> None:
    """Name the Counterpose of another state folder, which other commands reach and this one does not."""
    if health(f"http://{LOOPBACK}:{DEFAULT_PORT}") is not None:
        folder = state_at(DEFAULT_PORT)
        print_note(
            f"a Counterpose answers on port {DEFAULT_PORT}: if another state folder started it, name that "
            "with --state"
            if folder is None
            else f"another Counterpose runs on port {DEFAULT_PORT}: --state {quote(str(folder))} means it"
        )


def _state_of(each: ServiceState) -> str:
    absent = "not ready" if each.in_suite else "absent"
    return "ready" if each.ready else absent


def _greeting(stack: Stack, state: Path | None) -> str:
    named = state_option(state)
    own = stack.environment()[SUITE_VARIABLE] != DEFAULT_SUITE
    tested = "FOLDER --classifier timm:resnet50" if own else "demo --classifier leaning-resnet"
    lines = [
        f"Counterpose answers at {stack.url}",
        f"State and logs: {stack.state}",
        "Next:",
        *([] if stack.port == DEFAULT_PORT else [f"  export COUNTERPOSE_URL={stack.url}"]),
        f"  counterpose stress-test {tested} --report report.html",
        f"  counterpose status{named}",
        f"  counterpose down{named}",
    ]
    return "\n".join(lines)


def _described(found: StackStatus, state: Path | None) -> str:
    if not any(process.pid for process in found.processes):
        message = f"Counterpose {found.version} is not running (state folder {str(found.state)!r})"
        return f"{message}\nStart it: counterpose up{state_option(state)}"
    lines = [f"Counterpose {found.gateway_version or found.version} at {found.url}: {_word(found)}"]
    lines += [_process_line(found, at) for at in range(len(found.processes))]
    lines += [f"  {each.service:12} {'ready' if each.ready else each.detail}" for each in found.services]
    lines += [f"  suite        {_suite(found)}"]
    lines += [f"  operations   {len(found.operations)} on images"] if found.operations else []
    lines += [f"  state        {found.state}"]
    lines += [] if found.store is None else [f"  store        {_store(found.store)}"]
    if found.gateway_version not in (None, found.version):
        named = state_option(state)
        restart = f"`counterpose down{named}` and `counterpose up{named}`"
        lines.append(f"  installed is {found.version}: restart with {restart}")
    return "\n".join(lines)


def _suite(found: StackStatus) -> str:
    if found.suite != DEFAULT_SUITE or found.suite_version is None:
        return str(found.suite)
    return f"{found.suite} ({SUITE_DISTRIBUTION} {found.suite_version})"


def _store(use: StoreUse) -> str:
    of = "" if use.budget_bytes is None else f" of {format_si(use.budget_bytes, 'B')}"
    evicted = f", {use.evictions} evicted" if use.evictions else ""
    return f"{format_si(use.derived_bytes, 'B')}{of} that can be computed again{evicted}"


def _word(found: StackStatus) -> str:
    return "ready" if found.ready else str(found.waiting_for)


def _process_line(found: StackStatus, at: int) -> str:
    process = found.processes[at]
    if process.pid is None or process.started_at is None:
        return f"  {process.name:12} not running; its log: {process.log}"
    age = datetime.now(UTC) - process.started_at
    since = process.started_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return f"  {process.name:12} pid {process.pid}, since {since} ({span(age.total_seconds())})"


def span(seconds: float) -> str:
    """Write a span of time in words."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
