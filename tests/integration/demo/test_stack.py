"""``make up``, ``make down`` and ``make demo`` start what is missing and stop exactly what they started.

The programs are shell scripts that sleep; the gateway's address is answered by this process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import run
import stack as stack_module
from stack import Process, Stack, began, main

CALLED = '#!/bin/sh\necho "$(basename "$0") $*" >> "$FAULTLINE_STATE_DIR/calls"\n'
SERVING = f'{CALLED}case "$1" in register-dataset) exit 0;; esac\nexec sleep 60\n'
RENDERING = f'{CALLED}mkdir -p "$3"\n'
FAILING = '#!/bin/sh\nmkdir -p "$3"\nexit 1\n'
UP = [
    "faultline-services up",
    "python -m faultline_miniature.training.held_out",
    "faultline-gateway register-dataset demo",
    "faultline-gateway serve",
    "faultline-gateway work",
]


class Answering(BaseHTTPRequestHandler):
    """Answers 200 while the programs that were called include the one that would."""

    calls: Path

    def do_GET(self) -> None:
        """Healthy with a gateway, ready with a worker too."""
        known = self.calls.read_text(encoding="utf-8") if self.calls.exists() else ""
        wanted = "serve" if self.path == "/healthz" else "work"
        self.send_response(200 if wanted in known else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setattr(stack_module, "LOOK_S", 0.005)
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {"faultline-services": SERVING, "faultline-gateway": SERVING, "python": RENDERING}
    for name, text in scripts.items():
        write_program(programs / name, text)
    Answering.calls = tmp_path / "state" / "calls"
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        made = Stack(tmp_path / "state", port=server.server_port, programs=programs)
        yield made
        made.down()
        server.shutdown()
        thread.join()


def write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def calls(stack: Stack) -> list[str]:
    """The programs that were run, in order."""
    return (stack.state / "calls").read_text(encoding="utf-8").splitlines()


def another(stack: Stack) -> Stack:
    """The same stack in the hands of another process."""
    return Stack(stack.state, port=stack.port, programs=stack.programs)


def test_up_starts_each_program_once_and_the_worker_last(stack: Stack) -> None:
    stack.up()
    found = calls(stack)
    assert [line[: len(wanted)] for line, wanted in zip(sorted(found), sorted(UP), strict=True)] == sorted(UP)
    assert found[-1] == "faultline-gateway work"
    assert set(stack.running()) == {"services", "gateway", "worker"}


def test_down_ends_them_all_and_forgets_them(stack: Stack) -> None:
    stack.up()
    processes = list(stack.running().values())
    another(stack).down()
    assert [process for process in processes if process.alive()] == []
    assert stack.running() == {}
    assert not (stack.state / "stack.json").exists()


def test_up_again_starts_nothing(stack: Stack) -> None:
    stack.up()
    before = stack.pids()
    other = another(stack)
    other.up()
    assert (other.pids(), other.started) == (before, [])
    assert len(calls(stack)) == len(UP)


def test_a_dead_worker_alone_is_started_anew(stack: Stack) -> None:
    stack.up()
    before = stack.running()
    before["worker"].stop()
    other = another(stack)
    other.up()
    assert other.started == ["worker"]
    assert {name: other.running()[name] for name in ("services", "gateway")} == {
        name: before[name] for name in ("services", "gateway")
    }
    assert other.running()["worker"] != before["worker"]
    other.stop_started()
    assert set(stack.running()) == {"services", "gateway"}


def test_a_pid_that_was_given_to_another_process_is_left_alone(stack: Stack) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        record = {"services": {"pid": stranger.pid, "began": (began(stranger.pid) or 0) - 1}}
        stack.state.mkdir()
        (stack.state / "stack.json").write_text(json.dumps(record), encoding="utf-8")
        stack.down()
        assert stranger.poll() is None
        stranger.kill()


def test_a_process_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "STOP_TIMEOUT_S", 0.05)
    monkeypatch.setattr(stack_module, "LOOK_S", 0.005)
    deaf = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo; while :; do sleep 60; done"],
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    with deaf:
        assert deaf.stdout is not None
        deaf.stdout.readline()
        process = Process(deaf.pid, began(deaf.pid) or 0)
        process.stop()
        assert not process.alive()


def test_a_zombie_counts_as_ended() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert began(child) is None
    os.waitpid(child, 0)


def test_what_cannot_start_is_named_and_what_had_started_is_stopped(stack: Stack) -> None:
    gateway = stack.programs / "faultline-gateway"
    write_program(gateway, '#!/bin/sh\ncase "$1" in register-dataset) exit 0;; esac\nexit 1\n')
    with pytest.raises(SystemExit, match=r"gateway ended before it was ready; see .*gateway\.log"):
        main(["up"], stack)
    assert stack.running() == {}


def test_a_failed_up_leaves_what_ran_before(stack: Stack) -> None:
    stack.up()
    before = stack.running()
    before["gateway"].stop()
    write_program(stack.programs / "faultline-gateway", "#!/bin/sh\nexit 1\n")
    (stack.state / "calls").unlink()
    with pytest.raises(subprocess.CalledProcessError):
        main(["up"], another(stack))
    assert stack.running() == {name: before[name] for name in ("services", "worker")}


def test_an_interrupted_rendering_does_not_pass_for_a_dataset(stack: Stack) -> None:
    write_program(stack.programs / "python", FAILING)
    with pytest.raises(subprocess.CalledProcessError):
        main(["up"], stack)
    assert not (stack.state / "datasets" / "demo").exists()
    write_program(stack.programs / "python", RENDERING)
    main(["up"], stack)
    assert (stack.state / "datasets" / "demo").is_dir()


def test_the_secret_is_the_owner_s_alone_and_stays(stack: Stack) -> None:
    stack.state.mkdir()
    stack.environment()
    secret = stack.state / "secret"
    text = secret.read_text(encoding="utf-8")
    stack.environment()
    assert (secret.stat().st_mode & 0o777, len(text)) == (0o600, 64)
    assert secret.read_text(encoding="utf-8") == text


def test_everything_listens_on_loopback_and_is_told_the_same_ports(stack: Stack) -> None:
    stack.state.mkdir()
    told = stack.environment()
    assert stack.url == f"http://127.0.0.1:{told['FAULTLINE_PORT']}"
    assert told["FAULTLINE_SERVICES_URL"] == f"http://127.0.0.1:{told['FAULTLINE_SERVICES_PORT']}"
    assert "FAULTLINE_HOST" not in told


def demo_that(ends: BaseException | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo's stress test end so."""

    def stress_test(url: str, out: Path) -> None:
        if ends is not None:
            raise ends

    monkeypatch.setattr(run, "stress_test", stress_test)


@pytest.mark.parametrize("ends", [None, KeyboardInterrupt(), SystemExit("failed"), RuntimeError("a bug")])
def test_the_demo_stops_what_it_started_however_it_ends(
    stack: Stack, ends: BaseException | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    demo_that(ends, monkeypatch)
    if ends is None:
        run.main(stack, tmp_path)
    else:
        with pytest.raises(type(ends)):
            run.main(stack, tmp_path)
    assert len(calls(stack)) == len(UP)
    assert stack.running() == {}


def test_the_demo_leaves_a_stack_that_ran_before(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack.up()
    before = stack.running()
    demo_that(KeyboardInterrupt(), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run.main(another(stack), tmp_path)
    assert stack.running() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_demo_stops_what_it_started_when_it_is_stopped_itself(
    stack: Stack, number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    handler = signal.getsignal(number)
    monkeypatch.setattr(run, "stress_test", lambda url, out: os.kill(os.getpid(), number))
    with pytest.raises(SystemExit) as caught:
        run.main(stack, tmp_path)
    assert caught.value.code == 128 + number
    assert stack.running() == {}
    assert signal.getsignal(number) is handler


def test_a_second_interrupt_does_not_break_off_the_stopping(stack: Stack) -> None:
    # A shell starts its background jobs with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with stack_module.undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("record", ['{"gateway": 4711}', "[]", "{", ""])
def test_a_damaged_record_is_named_and_nothing_is_started(stack: Stack, record: str) -> None:
    stack.state.mkdir(parents=True, exist_ok=True)
    (stack.state / "stack.json").write_text(record, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"stack\.json is damaged"):
        stack.up()
    assert not (stack.state / "calls").exists()
    (stack.state / "stack.json").unlink()
