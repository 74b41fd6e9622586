"""A program in a group of its own: its log, its end, and the end of what it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from counterpose_processes import process
from counterpose_processes.ports import free_port, is_free
from counterpose_processes.process import Process
from counterpose_processes.program import Program
from counterpose_processes.system import began
from fakes.process_trees import descendants
from fakes.processes import PATIENCE_SECONDS, look_until

LEAVING = """
import os, subprocess, time
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
"""


def gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    return began(pid) is None


def said(program: Program, number: int = 1) -> list[str]:
    """Wait for so many lines."""
    look_until(lambda: len(program.last_lines()) >= number)
    return program.last_lines()


def test_a_program_runs_where_and_as_it_is_told(tmp_path: Path) -> None:
    with Program(
        ["sh", "-c", "pwd; echo $WORD; exit 3"],
        environment={"WORD": "hello"},
        folder=tmp_path,
        log=tmp_path / "log",
    ) as program:
        assert program.wait() == program.poll() == 3
        assert program.last_lines() == [str(tmp_path), "hello"]


def test_a_log_tells_the_last_lines_of_this_run_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"earlier\n")
    with Program(["printf", "a\\n\\377b\\n"], log=log) as program:
        program.wait()
        assert program.last_lines() == ["a", "\ufffdb"]
    assert log.read_bytes().startswith(b"earlier\n")
    with Program(["true"], log=log) as program:
        program.wait()
        assert program.last_lines() == []


def test_a_program_leads_its_own_group(tmp_path: Path) -> None:
    with Program(["sleep", "600"]) as program:
        assert os.getpgid(program.pid) == program.pid
        assert program.wait(0.01) is None
    assert program.poll() == -signal.SIGKILL


@pytest.mark.parametrize("guarded", [True, False])
def test_a_killed_program_takes_with_it_what_left_its_group(guarded: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"{LEAVING}time.sleep(600)"]
    with Program(command, log=tmp_path / "log", guarded=guarded) as program:
        left = int(said(program)[0])
        assert os.getpgid(left) == left
    look_until(lambda: gone(left))


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere an orphan belongs to the system's first process"
)
def test_a_guard_ends_what_left_the_group_of_a_program_that_died(tmp_path: Path) -> None:
    with Program(
        [sys.executable, "-c", f"{LEAVING}os._exit(4)"], log=tmp_path / "log", guarded=True
    ) as program:
        left = int(said(program)[0])
        assert program.wait() != 0
        look_until(lambda: gone(left))


def test_an_abandoned_program_is_asked_to_stop_first(tmp_path: Path) -> None:
    asked = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    with Program(["sh", "-c", asked], log=tmp_path / "log", guarded=True) as program:
        assert said(program) == ["ready"]
        program.abandon()
        program.wait()
        assert program.last_lines() == ["ready", "asked"]


DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
GUARDING = """
import sys
from counterpose_processes import guard
guard.GRACE_S = 0.05
guard.main([sys.executable, "-c", sys.argv[1]])
"""


def test_an_abandoned_program_that_is_deaf_is_killed(tmp_path: Path) -> None:
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", GUARDING, DEAF],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables,
        start_new_session=True,
    ) as guarding:
        assert guarding.stdout is not None
        assert guarding.stdout.readline() == b"ready\n"
        below = descendants(guarding.pid)
        assert guarding.stdin is not None
        guarding.stdin.close()
        try:
            assert guarding.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        finally:
            guarding.kill()
    look_until(lambda: all(map(gone, below)))


def test_a_guard_starts_without_the_caller_s_python_path(tmp_path: Path) -> None:
    variables = {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "PATH": os.environ["PATH"]}
    with Program(
        ["sh", "-c", "echo $PYTHONPATH"], environment=variables, log=tmp_path / "log", guarded=True
    ) as program:
        assert program.wait() == 0
        assert program.last_lines() == ["/nowhere"]


def test_a_process_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", 0.05)
    monkeypatch.setattr(process, "POLL_S", 0.005)
    deaf = "trap '' TERM; echo; while :; do sleep 60; done"
    with Program(["sh", "-c", deaf], log=tmp_path / "log") as program:
        said(program)
        running = Process.of(program.pid)
        running.stop()
        assert not running.alive()


def test_a_process_that_heeds_sigterm_is_not_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "POLL_S", 0.005)
    with Program(
        ["sh", "-c", "trap 'exit 7' TERM; echo; while :; do sleep 0.01; done"], log=tmp_path / "log"
    ) as program:
        said(program)
        Process.of(program.pid).stop()
        assert program.wait() == 7


def test_a_port_is_free_until_a_program_listens_on_it() -> None:
    port = free_port()
    assert is_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
    assert not is_free(port, "192.0.2.1"), "no address of this machine"
    assert is_free(port)


def test_a_free_port_is_no_port_that_outgoing_connections_are_lent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = [socket.create_connection(server.getsockname()) for _ in range(50)]
        lent = [end.getsockname()[1] for end in ends]
        for end in ends:
            end.close()
    assert max(free_port() for _ in range(50)) < min(lent)
    assert len({free_port() for _ in range(50)}) > 40, "two that ask at once rarely get the same"
