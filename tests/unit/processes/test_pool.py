"""Processes that do tasks: what they answer, and what becomes of tasks that are given up."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from counterpose_processes import pool as pool_module
from counterpose_processes.pool import Pool
from counterpose_processes.program import Program
from counterpose_processes.system import began, descendants
from fakes.processes import look_until

PATIENCE_S = 100.0


class Lost(Exception):
    """The process was killed."""


def do(task: object) -> object:
    """Return the process, sleep, or fail."""
    if isinstance(task, float):
        time.sleep(task)
    if task == "fail":
        raise ValueError("no such task")
    return os.getpid()


@pytest.fixture
def pool() -> Iterator[Pool]:
    opened = Pool(1, do, Lost)
    yield opened
    opened.close()


def test_one_process_does_many_tasks_and_is_another(pool: Pool) -> None:
    pids = {pool.start(None).result(PATIENCE_S) for _ in range(3)}
    assert len(pids) == 1
    assert pids != {os.getpid()}


def test_an_error_reaches_who_waits_and_the_process_goes_on(pool: Pool) -> None:
    first = pool.start(None).result(PATIENCE_S)
    with pytest.raises(ValueError, match="no such task"):
        pool.start("fail").result(PATIENCE_S)
    with pytest.raises((TypeError, AttributeError), match="pickle"):
        pool.start(lambda: None).result(PATIENCE_S)
    assert pool.start(None).result(PATIENCE_S) == first


def test_a_task_that_is_given_up_ends_its_process(pool: Pool) -> None:
    first = pool.start(None).result(PATIENCE_S)
    going = pool.start(600.0)
    look_until(going.running)
    waiting = pool.start(600.0)
    waiting.give_up()
    assert waiting.cancelled()
    going.give_up()
    with pytest.raises(CancelledError):
        going.result(PATIENCE_S)
    assert began(first) is None
    assert pool.start(None).result(PATIENCE_S) != first


def test_a_process_that_is_killed_is_told_and_replaced(pool: Pool) -> None:
    first = pool.start(None).result(PATIENCE_S)
    going = pool.start(600.0)
    look_until(going.running)
    os.kill(first, 9)
    with pytest.raises(Lost):
        going.result(PATIENCE_S)
    second = pool.start(None).result(PATIENCE_S)
    assert second != first
    os.kill(second, 9)
    look_until(lambda: began(second) is None)
    assert pool.start(None).result(PATIENCE_S) != second, "an idle one"


def test_an_idle_process_ends(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.01)
    first = pool.start(None).result(PATIENCE_S)
    look_until(lambda: began(first) is None)
    assert pool.start(None).result(PATIENCE_S) != first


def test_a_closed_pool_gives_up_all_and_takes_no_more() -> None:
    pool = Pool(1, do, Lost)
    first = pool.start(None).result(PATIENCE_S)
    going, waiting = pool.start(600.0), pool.start(600.0)
    look_until(going.running)
    pool.close()
    assert began(first) is None
    assert waiting.cancelled()
    with pytest.raises(CancelledError):
        going.result(PATIENCE_S)
    assert pool.start(None).cancelled()


def test_callers_whose_tasks_wait_take_turns(pool: Pool) -> None:
    """One caller's many tasks do not stand before another's single one; each one's own stay in order."""
    going = pool.start(600.0, "busy")
    look_until(going.running)
    ended: list[str] = []
    for name, caller in (("a1", "busy"), ("a2", "busy"), ("a3", "busy"), ("b1", "other"), ("c1", "third")):

        def note(_: object, name: str = name) -> None:
            ended.append(name)

        pool.start(None, caller).add_done_callback(note)
    going.give_up()
    look_until(lambda: len(ended) == 5)
    assert ended == ["a1", "b1", "c1", "a2", "a3"]


@pytest.mark.fault("T21")
def test_a_caller_that_adds_whenever_one_ends_or_gives_up_many_stands_before_nobody(pool: Pool) -> None:
    going = pool.start(600.0, "busy")
    look_until(going.running)
    given_up = [pool.start(600.0, "busy") for _ in range(50)]
    ended: list[str] = []

    def note(name: str, caller: str, again: int) -> None:
        def done(_: object) -> None:
            ended.append(name)
            if again:
                note(f"{name}+", caller, again - 1)

        pool.start(None, caller).add_done_callback(done)

    note("a", "busy", 3)
    for name in ("b", "c"):
        note(name, "other", 0)
    for work in given_up:
        work.give_up()
    going.give_up()
    look_until(lambda: len(ended) == 6)
    assert ended.index("b") <= 1
    assert ended.index("c") <= 3


HOLDING = """
import time
from counterpose_processes.pool import Pool
if __name__ == "__main__":
    pool = Pool(1, time.sleep, RuntimeError)
    pool.start(0.0).result()
    pool.start(600.0)
    print("at work", flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process ends with its task")
def test_a_process_at_work_ends_with_a_holder_that_is_killed(tmp_path: Path) -> None:
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    (tmp_path / "holding.py").write_text(HOLDING, encoding="utf-8")
    with Program(
        [sys.executable, "holding.py"], environment=variables, folder=tmp_path, log=tmp_path / "log"
    ) as holder:
        look_until(lambda: holder.last_lines() == ["at work"])
        below = descendants(holder.pid)
        os.kill(holder.pid, signal.SIGKILL)
        assert below
        look_until(lambda: not any(map(began, below)))
