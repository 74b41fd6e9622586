"""``counterpose up``, ``down`` and ``demo`` start what is missing and stop exactly what they started.

The programs are shell scripts that sleep; the gateway's address is answered by this process.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from counterpose._stack import Programs, Stack, demo_images, open_stack
from counterpose._stack import stack as stack_module
from counterpose._stack.readiness import require_free
from counterpose_core.errors import BackendUnavailable, DeadlineExceeded, InvalidRequest, UnknownModel
from counterpose_processes import process as process_module
from counterpose_processes.process import Process
from counterpose_processes.signals import undisturbed
from counterpose_processes.system import began
from fakes.stack_programs import FAILING_RENDERER, NOTING, RENDERING, SERVING, FakeGateway, write_program

UP = [
    "counterpose-services up",
    "python -P -m counterpose_miniature.training.held_out",
    "counterpose-gateway register-dataset demo",
    "counterpose-gateway serve",
    "counterpose-gateway work",
]


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setattr(stack_module, "POLL_S", 0.005)
    monkeypatch.setattr(process_module, "POLL_S", 0.005)
    programs = tmp_path / "bin"
    for name, text in {
        "counterpose-services": SERVING,
        "counterpose-gateway": SERVING,
        "python": RENDERING,
    }.items():
        write_program(programs / name, text)
    with FakeGateway(tmp_path / "state" / "calls") as gateway:
        # The port belongs to this test's gateway, which a free port would not.
        monkeypatch.setattr(stack_module, "require_free", lambda *_: None)
        made = Stack(tmp_path / "state", gateway.port, services_port=1024, programs=Programs.of(programs))
        yield made
        made.down()


def calls(stack: Stack) -> list[str]:
    """The programs that were run, in order."""
    return (stack.state / "calls").read_text(encoding="utf-8").splitlines()


def another(stack: Stack) -> Stack:
    """The same stack in the hands of another process."""
    return Stack(stack.state, stack.port, stack.services_port, stack.programs)


def replace(stack: Stack, name: str, text: str) -> None:
    """Put another program in the place of an installed one."""
    assert stack.programs is not None
    write_program(stack.programs.folder / name, text)


def started_after(process: Process) -> subprocess.Popen[bytes]:
    """Start a program whose start time differs: the system counts it in ticks of some 10 ms."""
    while True:
        started = subprocess.Popen(["sleep", "60"])
        if began(started.pid) != process.began:
            return started
        started.kill()
        started.wait()


def test_up_starts_each_program_once_and_the_worker_last(stack: Stack) -> None:
    stack.up()
    found = calls(stack)
    assert [line[: len(wanted)] for line, wanted in zip(sorted(found), sorted(UP), strict=True)] == sorted(UP)
    # Not the order of the notes: each program writes its own when the system lets it run.
    assert stack.started == ["services", "gateway", "worker"]
    (registered,) = (line for line in found if line.startswith(UP[2]))
    assert found.index(registered) < found.index("counterpose-gateway work")
    assert set(stack.running()) == {"services", "gateway", "worker"}


def test_rendered_images_are_prepared_for_suites_that_edit_and_for_no_others(stack: Stack) -> None:
    for suite, prepared in (("photographs", []), ("miniature", UP[1:3])):
        own = dataclasses.replace(stack, suite=suite, started=[])
        own.left_running()
        assert [call for call in UP[1:3] if any(line.startswith(call) for line in calls(stack))] == prepared
        own.down()


def test_a_suite_that_does_not_exist_is_named_before_anything_starts(stack: Stack) -> None:
    with pytest.raises(UnknownModel, match=r"named 'photograph' \(did you mean 'photographs'\?\)"):
        dataclasses.replace(stack, suite="photograph", started=[]).left_running()
    assert not stack.state.exists()


def test_down_stops_every_process_and_deletes_the_record(stack: Stack) -> None:
    stack.up()
    processes = list(stack.running().values())
    assert another(stack).down() == ["worker", "gateway", "services"]
    assert [process for process in processes if process.alive()] == []
    assert stack.running() == {}
    assert not (stack.state / "stack.json").exists()


def test_down_creates_no_folder_for_a_stack_that_never_ran(stack: Stack) -> None:
    assert stack.down() == []
    assert not stack.state.exists()


def test_a_second_up_starts_nothing(stack: Stack) -> None:
    stack.up()
    before = stack.pids()
    other = another(stack)
    other.up()
    assert (other.pids(), other.started) == (before, [])
    assert len(calls(stack)) == len(UP)


def test_up_restarts_only_the_dead_worker(stack: Stack) -> None:
    stack.up()
    before = stack.running()
    before["worker"].stop()
    other = another(stack)
    other.up()
    assert other.started == ["worker"]
    after = other.running()
    assert (after["services"], after["gateway"]) == (before["services"], before["gateway"])
    assert after["worker"] != before["worker"]
    other.stop_started()
    assert set(stack.running()) == {"services", "gateway"}


def test_a_reused_pid_is_left_alone(stack: Stack) -> None:
    stack.up()
    worker = stack.running()["worker"]
    stranger = started_after(worker)
    try:
        record = stack.state / "stack.json"
        text = record.read_text(encoding="utf-8")
        record.write_text(text.replace(f'"pid": {worker.pid}', f'"pid": {stranger.pid}'), encoding="utf-8")
        assert another(stack).down() == ["gateway", "services"]
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        worker.stop()


def test_a_process_that_dies_at_startup_is_reported_with_its_output(stack: Stack) -> None:
    dying = '#!/bin/sh\ncase "$1" in register-dataset) exit 0;; esac\necho no such weights >&2\nexit 7\n'
    stack.state.mkdir()
    stack.log("gateway").write_text("words of an earlier start\n", encoding="utf-8")
    replace(stack, "counterpose-gateway", dying)
    with pytest.raises(BackendUnavailable) as caught:
        stack.left_running()
    told = caught.value.detail
    assert "the gateway ended while starting (exit code 7)" in told
    assert str(stack.state / "gateway.log") in told
    assert "    no such weights" in told
    assert "an earlier start" not in told
    assert stack.running() == {}


def test_up_fails_at_once_when_the_services_die(stack: Stack) -> None:
    replace(stack, "counterpose-services", "#!/bin/sh\necho Ray did not start >&2\nexit 3\n")
    with pytest.raises(BackendUnavailable, match=r"the services ended while starting \(exit code 3\)"):
        stack.left_running()
    assert stack.running() == {}


def test_a_process_that_is_not_ready_in_time_is_reported_and_stopped(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "START_TIMEOUT_S", 0.05)
    # Alive, but it never says that it serves.
    replace(stack, "counterpose-gateway", '#!/bin/sh\n[ "$1" = register-dataset ] || exec sleep 60\n')
    with pytest.raises(DeadlineExceeded, match=r"nothing moved on for 0 s \(not ready: editor\)"):
        stack.left_running()
    assert stack.running() == {}


READING = f"""{NOTING}mkdir reading
while :; do
  count=$((count + 1))
  told='"service": "editor", "file": "unet.safetensors", "size_bytes": 9999, "read_bytes": '
  echo "{{$told$count}}" >reading/new
  mv reading/new reading/editor-1.json
  sleep 0.02
done
"""
LATE_WORKER = """#!/bin/sh
case "$1" in register-dataset) exit 0;; work) sleep 4;; esac
echo "counterpose-gateway $*" >> "$COUNTERPOSE_STATE_DIR/calls"
exec sleep 60
"""


def test_a_start_goes_on_for_as_long_as_weights_are_read(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "START_TIMEOUT_S", 2.0)
    replace(stack, "counterpose-gateway", LATE_WORKER)
    replace(stack, "counterpose-services", READING)
    seen: list[str] = []
    watched = dataclasses.replace(stack, watch=lambda read: seen.extend(one.file for one in read))
    assert watched.up()
    assert set(seen) == {"unet.safetensors"}
    watched.down()


def test_a_failed_up_keeps_earlier_processes_running(stack: Stack) -> None:
    stack.up()
    before = stack.running()
    before["gateway"].stop()
    replace(stack, "counterpose-gateway", "#!/bin/sh\necho ledger is locked >&2\nexit 1\n")
    (stack.state / "calls").unlink()
    with pytest.raises(BackendUnavailable, match=r"'demo' was not registered: (.|\n)*ledger is locked"):
        another(stack).left_running()
    assert stack.running() == {name: before[name] for name in ("services", "worker")}


def test_a_failed_rendering_leaves_no_dataset(stack: Stack) -> None:
    replace(stack, "python", FAILING_RENDERER)
    with pytest.raises(BackendUnavailable, match=r"'demo' was not made: (.|\n)*out of ink"):
        stack.left_running()
    assert not (stack.state / "datasets" / "demo").exists()
    replace(stack, "python", RENDERING)
    stack.left_running()
    assert (stack.state / "datasets" / "demo").is_dir()


def test_the_secret_is_reused_and_readable_only_by_its_owner(stack: Stack) -> None:
    stack.up()
    secret = stack.state / "secret"
    text = secret.read_text(encoding="utf-8")
    another(stack).down()
    stack.up()
    assert (secret.stat().st_mode & 0o777, len(text)) == (0o600, 64)
    assert (stack.state.stat().st_mode & 0o777) == 0o700
    assert secret.read_text(encoding="utf-8") == text


def test_concurrent_commands_are_refused(stack: Stack) -> None:
    refused: list[InvalidRequest] = []

    def interfere(_: str) -> None:
        if not refused:
            with pytest.raises(InvalidRequest, match=r"process \d+\) is starting or stopping") as caught:
                another(stack).down()
            refused.append(caught.value)

    starting = Stack(stack.state, stack.port, stack.services_port, stack.programs, interfere)
    starting.up()
    assert len(refused) == 1
    assert f"process {os.getpid()})" in str(refused[0])
    # Nobody is to be ended once the lock is free.
    assert (stack.state / "lock").read_text(encoding="utf-8") == ""
    assert set(stack.running()) == {"services", "gateway", "worker"}
    starting.stop_started()


@pytest.mark.parametrize("ends", [None, KeyboardInterrupt(), SystemExit("failed"), RuntimeError("a bug")])
def test_a_temporary_stack_always_stops_at_the_end(stack: Stack, ends: BaseException | None) -> None:
    def use() -> None:
        with stack.temporarily(demo_images):
            assert set(stack.running()) == {"services", "gateway", "worker"}
            if ends is not None:
                raise ends

    if ends is None:
        use()
    else:
        with pytest.raises(type(ends)):
            use()
    assert len(calls(stack)) == len(UP)
    assert stack.running() == {}


def test_temporary_use_keeps_a_stack_that_was_already_running(stack: Stack) -> None:
    stack.up()
    before = stack.running()
    asked: list[Path] = []
    temporary = another(stack).temporarily(lambda datasets: asked.append(datasets.state))
    with pytest.raises(KeyboardInterrupt), temporary:
        raise KeyboardInterrupt
    assert asked == [stack.state]
    assert stack.running() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_temporary_stack_stops_when_its_process_is_terminated(stack: Stack, number: signal.Signals) -> None:
    handler = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught, stack.temporarily(demo_images):
        os.kill(os.getpid(), number)
    assert caught.value.code == 128 + number
    assert stack.running() == {}
    assert signal.getsignal(number) is handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_does_not_interrupt_the_shutdown(number: signal.Signals) -> None:
    # A shell starts its background jobs with interrupts ignored.
    before = signal.signal(number, signal.default_int_handler)
    try:
        with undisturbed():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("record", ['{"gateway": 4711}', "[]", "{", ""])
def test_a_damaged_record_is_reported_and_nothing_starts(stack: Stack, record: str) -> None:
    stack.state.mkdir(parents=True, exist_ok=True)
    (stack.state / "stack.json").write_text(record, encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"stack\.json' is damaged"):
        stack.up()
    assert not (stack.state / "calls").exists()
    (stack.state / "stack.json").unlink()


def test_a_running_stack_is_opened_on_its_own_ports(stack: Stack) -> None:
    stack.up()
    opened = open_stack(stack.state)
    assert (opened.port, opened.services_port) == (stack.port, stack.services_port)


@pytest.mark.parametrize("option", ["port", "services_port"])
def test_a_running_stack_is_not_opened_on_other_ports(stack: Stack, option: str) -> None:
    stack.up()
    opened: Callable[..., Stack] = open_stack
    with pytest.raises(InvalidRequest, match=rf"--{option.replace('_', '-')} 9: Counterpose already runs"):
        opened(stack.state, **{option: 9})


def test_an_occupied_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        stack = Stack(tmp_path, port=port, services_port=port, programs=Programs.of(tmp_path / "bin"))
        state = re.escape(str(tmp_path))
        command = rf"`counterpose up --state '?{state}'? --port \d+ --services-port \d+`"
        with pytest.raises(InvalidRequest, match=rf"port {port} is taken by another program: .*{command}"):
            stack.up()
    assert stack.running() == {}


def test_a_port_of_another_state_folder_s_counterpose_is_called_so(tmp_path: Path) -> None:
    other = pytest.raises(
        InvalidRequest, match=r"another Counterpose runs there, .* `counterpose down --state"
    )
    with FakeGateway(tmp_path / "calls") as gateway, other:
        require_free({"--port": gateway.port})
