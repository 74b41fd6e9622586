"""What is seen of a local Counterpose: its processes, its ports, its answers, its logs, its steps."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from counterpose._cli.steps import Steps
from counterpose._stack import Stack, open_stack, read_record, status_of
from counterpose._stack.readiness import (
    Readiness,
    health,
    last_lines,
    require_free,
    waited_for,
)
from counterpose._stack.record import Record, state_at, write_record
from counterpose_core.errors import InvalidRequest
from counterpose_core.weights_reading import WeightsReading
from counterpose_processes.ports import free_port, is_free
from counterpose_processes.process import Process
from counterpose_processes.program import Program
from counterpose_processes.system import began
from fakes.stack_programs import LASTING, FakeGateway

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def myself() -> Process:
    """The process that runs the tests."""
    return Process.of(os.getpid())


def record(**processes: Process) -> Record:
    """A record of these processes."""
    return Record.model_validate(
        {"port": 1, "services_port": 2, "suite": "miniature", "version": "0", "processes": processes}
    )


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[FakeGateway]:
    with FakeGateway(tmp_path / "calls") as answering:
        yield answering


def test_a_process_lives_under_its_own_beginning_alone() -> None:
    assert myself().alive()
    assert not replace(myself(), began="another boot/1").alive()


def test_a_process_that_was_never_there_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert began(child.pid) is None
    assert not Process.of(child.pid).alive()


@pytest.mark.parametrize("pid", [0, 1, -1])
def test_a_record_names_no_process_that_must_not_be_signalled(pid: int, tmp_path: Path) -> None:
    good = record(worker=myself()).model_dump_json()
    (tmp_path / "stack.json").write_text(
        good.replace(f'"pid":{os.getpid()}', f'"pid":{pid}'), encoding="utf-8"
    )
    with pytest.raises(InvalidRequest, match=r"stack\.json' is damaged"):
        read_record(tmp_path)


def test_a_record_is_read_as_it_was_written_and_removed_when_empty(tmp_path: Path) -> None:
    written = record(worker=myself())
    write_record(tmp_path, written)
    assert read_record(tmp_path) == written
    write_record(tmp_path, record())
    assert read_record(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_refused_with_a_command_that_starts_beside_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(InvalidRequest, match=rf"port {port} is taken by another program: ") as refused:
            require_free({"--port": port, "--services-port": 1}, " --suite photographs")
    assert is_free(port)
    command = re.search(
        r"`counterpose up --suite photographs --port (\d+) --services-port 1`", str(refused.value)
    )
    assert command is not None
    assert is_free(int(command[1]))


def test_the_services_of_another_state_folder_are_no_unknown_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        write_record(tmp_path, record(worker=myself()).model_copy(update={"services_port": port}))
        monkeypatch.setattr("counterpose._stack.record.working_folders", lambda: [tmp_path])
        with pytest.raises(InvalidRequest, match=r"another Counterpose runs there, .* --state .*, or start"):
            require_free({"--port": 1, "--services-port": port})


def test_any_port_is_taken_where_the_default_is_not_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("counterpose._stack.stack.is_free", lambda port: False)
    strict, lenient = open_stack(tmp_path), open_stack(tmp_path, any_port=True)
    assert (strict.port, strict.services_port) == (8080, 8101)
    assert {lenient.port, lenient.services_port}.isdisjoint({8080, 8101})
    assert open_stack(tmp_path, port=9, any_port=True).port == 9


def test_a_gateway_tells_its_version_and_what_it_waits_for(gateway: FakeGateway, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{gateway.port}"
    found = health(url)
    assert found is not None
    assert found.version == "0.0.1"
    assert waited_for(url) == "not ready: editor"
    (tmp_path / "calls").write_text("\n".join(LASTING), encoding="utf-8")
    assert waited_for(url) is None


def test_the_state_folder_of_a_port_is_that_in_which_its_processes_run(tmp_path: Path) -> None:
    port = free_port()
    assert state_at(port) is None
    write_record(tmp_path, record(worker=myself()).model_copy(update={"port": port}))
    assert state_at(port) is None
    with Program(["sleep", "30"], folder=tmp_path, log=tmp_path / "log"):
        assert state_at(port) == tmp_path
    assert state_at(port) is None


def test_a_service_that_was_ready_once_is_not_awaited_again() -> None:
    said = ["no answer", "not ready: captioner, editor; GET /v1/services says why", "not ready: editor; why",
            "not ready: captioner, editor; why", "not ready: captioner; why", None]  # fmt: skip
    awaited = Readiness(iter(said).__next__)
    assert [awaited() for _ in said] == [
        "no answer", "not ready: captioner, editor", "not ready: editor", "not ready: editor",
        "each service answered; not yet all at once", None,
    ]  # fmt: skip


def test_nothing_that_answers_is_no_gateway() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert (health(url), waited_for(url)) == (None, "no answer")


def test_a_log_tells_its_last_lines_of_this_start_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"earlier\n")
    lines = "for n in $(seq 0 19); do printf 'line %d \\377\\n' $n; done"
    with Program(["sh", "-c", lines], log=log) as program:
        program.wait()
        told = last_lines(program).splitlines()
    assert (len(told), told[0], told[-1]) == (12, "    line 8 \ufffd", "    line 19 \ufffd")
    with Program(["true"], log=log) as program:
        program.wait()
        assert last_lines(program) == ""


def test_status_of_nothing_names_every_process_as_not_running(tmp_path: Path) -> None:
    found = status_of(Stack(tmp_path / "none"))
    assert not found.ready
    assert found.waiting_for == "not running: worker, gateway, services"
    assert [process.pid for process in found.processes] == [None, None, None]
    assert found.gateway_version is None


def test_status_names_the_process_that_has_died(gateway: FakeGateway, tmp_path: Path) -> None:
    dead = replace(myself(), began="another boot/1")
    write_record(tmp_path, record(services=myself(), gateway=myself(), worker=dead))
    found = status_of(Stack(tmp_path, gateway.port))
    assert found.waiting_for == "not running: worker"
    assert (found.gateway_version, found.suite) == ("0.0.1", "miniature")


def test_status_names_the_services_that_are_not_ready(gateway: FakeGateway, tmp_path: Path) -> None:
    write_record(tmp_path, record(services=myself(), gateway=myself(), worker=myself()))
    assert status_of(Stack(tmp_path, gateway.port)).waiting_for == "not ready: editor"
    (tmp_path / "calls").write_text("\n".join(LASTING), encoding="utf-8")
    assert status_of(Stack(tmp_path, gateway.port)).ready


def test_in_a_log_each_step_is_one_line() -> None:
    out = io.StringIO()
    with Steps(Console(file=out)) as steps:
        for step in ("not ready: editor", "not ready: editor", "ready"):
            steps.tell(step)
    assert out.getvalue() == "not ready: editor\nready\n"


def test_on_a_terminal_a_step_makes_room_when_it_ends() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with Steps(console) as steps:
        steps.tell("not ready: [editor]")
        steps.end()
        length = len(out.getvalue())
        steps.end()
        assert len(out.getvalue()) == length
    assert "not ready: [editor]" in out.getvalue()


def editor_reading(count: int, file: str = "unet/model.safetensors") -> WeightsReading:
    """The editor, which has read that many megabytes of a file."""
    return WeightsReading(service="editor", file=file, read_bytes=count * 10**6, size_bytes=10**9)


def test_in_a_log_a_file_of_weights_is_told_once() -> None:
    out = io.StringIO()
    with Steps(Console(file=out)) as steps:
        for read in (
            [editor_reading(0)],
            [editor_reading(500)],
            [editor_reading(0, "vae/[1].safetensors")],
            [],
        ):
            steps.watch(read)
    assert out.getvalue().splitlines() == [
        "editor: reading unet/model.safetensors, 0.0 of 1.0 GB",
        "editor: reading vae/[1].safetensors, 0.0 of 1.0 GB",
    ]


def test_on_a_terminal_a_file_of_weights_has_a_bar_until_it_is_read() -> None:
    out = io.StringIO()
    with Steps(Console(file=out, force_terminal=True, width=120)) as steps:
        steps.tell("not ready: editor")
        steps.watch([editor_reading(500)])
        steps.refresh()
        assert "editor: reading unet/model.safetensors, 0.5 of 1.0 GB ━" in plain(out)
        out.truncate(0)
        steps.watch([])
        steps.refresh()
        assert "unet" not in plain(out)


def plain(out: io.StringIO) -> str:
    """What was written, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
