"""What the system tells of processes: from Linux's own files, and from what other systems have."""

from __future__ import annotations

import ast
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import counterpose_processes
from counterpose_processes import supervised, system
from counterpose_processes.pool import Pool
from counterpose_processes.process import Process
from counterpose_processes.program import Program
from counterpose_processes.supervised import Supervised
from fakes.processes import look_until

PS = """#!{python}
import os, sys
rows = {{int(pid): (parent, state, start) for pid, parent, state, start in {rows!r}}}
chosen = rows if "-A" in sys.argv else [int(sys.argv[-1])]
for pid in chosen:
    if pid in rows:
        print(f"{{pid:>7}} {{rows[pid][0]:>7}} {{rows[pid][1]:4}} {{rows[pid][2]}}")
"""
LINUX = ("/proc", "prctl(", "ctypes", "sys.platform")
START = "Sun Nov 22 19:53:21 2026"
FAMILY = [
    (7, 1, "Ss", START),
    (8, 7, "S+", START),
    (9, 8, "R", START),
    (10, 1, "S", START),
    (11, 1, "Z", START),
]


def without_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away what only Linux has."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(system, "PROC", tmp_path / "no proc")


Listing = Callable[[list[tuple[int, int, str, str]]], None]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Listing:
    """A system as macOS is, whose ``ps`` lists the processes that the test names."""
    without_linux(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def listing(rows: list[tuple[int, int, str, str]]) -> None:
        (tmp_path / "ps").write_text(PS.format(python=sys.executable, rows=rows), encoding="utf-8")
        (tmp_path / "ps").chmod(0o755)

    listing(FAMILY)
    return listing


def test_only_the_standard_library_is_imported() -> None:
    folder = Path(counterpose_processes.__file__).parent
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.partition(".")[0]
                assert top in sys.stdlib_module_names or top == folder.name, (file, name)


def test_one_module_names_what_only_linux_has() -> None:
    folder = Path(counterpose_processes.__file__).parent
    naming = {
        file.stem
        for file in folder.rglob("*.py")
        if any(
            word in file.read_text(encoding="utf-8") for word in ("/proc", "prctl(", "ctypes", "sys.platform")
        )
    }
    assert naming == {"system"}


def test_a_process_has_begun_once_and_one_that_ended_has_not() -> None:
    assert system.began(os.getpid()) == system.began(os.getpid()) != system.began(1)
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert system.began(child.pid) is None, "a zombie"
        child.wait()
    assert system.began(child.pid) is None


def test_all_below_a_process_are_listed() -> None:
    inner = "import subprocess; subprocess.run(['sleep', '60'])"
    with Program([sys.executable, "-c", inner]) as program:
        look_until(lambda: len(system.descendants(program.pid)) == 1)
        assert system.descendants(os.getpid())[:1] != []
        assert set(system.descendants(program.pid)) < set(system.descendants(os.getpid()))
    assert system.descendants(program.pid) == []


def test_without_proc_the_beginning_comes_from_ps(elsewhere: Listing) -> None:
    assert system.began(7) == START
    assert system.began(12) is None
    assert system.began(11) is None, "a zombie"


def test_without_proc_all_below_a_process_come_from_ps(elsewhere: Listing) -> None:
    assert system.descendants(7) == [8, 9]
    assert system.descendants(10) == []


def test_without_linux_its_calls_are_left_out(elsewhere: Listing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("no call of Linux's library"))
    system.end_with_parent()
    system.adopt_orphans()
    system.return_freed_memory()
    assert system.monotonic_clock() is None


def test_another_library_than_glibc_may_lack_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    system.return_freed_memory()
    system.end_with_parent()


@pytest.mark.linux  # elsewhere a clock has no name
def test_processes_of_one_machine_name_one_clock() -> None:
    code = "from counterpose_processes.system import monotonic_clock; print(monotonic_clock())"
    command = [sys.executable, "-c", code]
    told = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
    )
    assert told.stdout.strip() == system.monotonic_clock()


def test_without_linux_a_program_is_started_and_ended(elsewhere: Listing) -> None:
    with Program(["sh", "-c", "sleep 60 & wait"], guarded=False) as program:
        elsewhere([(program.pid, os.getpid(), "Ss", START)])
        process = Process.of(program.pid)
        assert (process.began, process.alive()) == (START, True)
        elsewhere([])
        assert not process.alive()
    assert program.poll() == -signal.SIGKILL


def test_without_linux_a_task_is_kept_running_until_it_ends_well(
    elsewhere: Listing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "PAUSES_S", (0.0,))
    count = f"echo x >> {tmp_path}/runs; [ $(wc -l < {tmp_path}/runs) -ge 2 ]"
    Supervised("it", ["sh", "-c", count]).keep()
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "x\nx\n"


def test_without_linux_a_pool_answers(elsewhere: Listing) -> None:
    pool = Pool(1, abs, RuntimeError)
    try:
        assert pool.start(-3).result(timeout=60) == 3
    finally:
        pool.close()
