"""Processes that make summaries: one computation for all who ask, given up when nobody waits any more."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import InternalError, NotFound
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.summaries.joined import JoinedWork, summing_processes
from counterpose_gateway.summaries.processes import summary_processes
from counterpose_gateway.summaries.summaries import (
    Report,
    Summary,
    _awaited,
    awaited_report,
    awaited_summary,
    summary_of,
)
from fakes.contexts import run_context
from fakes.lasting_tasks import STARTED_SECONDS, Lasting, Loaded, fail, until
from fakes.ledgers import create_run, finish_all, new_ledger

READERS = 10


def _runs(pid: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


@pytest.fixture(scope="module")
def processes() -> Iterator[JoinedWork]:
    """One process, for the tests that need no ledger."""
    joined = JoinedWork(summing_processes(1, object), kept=4)
    yield joined
    joined.close()


def test_ten_readers_of_one_state_share_one_computation(processes: JoinedWork, tmp_path: Path) -> None:
    task = Lasting(tmp_path)
    with ExitStack() as stack:
        futures = [stack.enter_context(processes.asked("shared", task)) for _ in range(READERS)]
        (tmp_path / "end").touch()
        found = {future.result(timeout=STARTED_SECONDS) for future in futures}
    assert len(found) == len(task.started) == 1
    assert os.getpid() not in found
    with processes.asked("shared", task) as future:
        assert future.done()


def test_work_goes_on_while_one_of_its_readers_waits(processes: JoinedWork, tmp_path: Path) -> None:
    task = Lasting(tmp_path)
    with processes.asked("left by one", task) as future:
        with processes.asked("left by one", task):
            task.process()
        (tmp_path / "end").touch()
        assert future.result(timeout=STARTED_SECONDS) == task.process()


def test_work_is_given_up_when_nobody_waits(processes: JoinedWork, tmp_path: Path) -> None:
    task = Lasting(tmp_path)
    with processes.asked("abandoned", task):
        process = task.process()
    until(lambda: not _runs(process))
    (tmp_path / "end").touch()
    with processes.asked("abandoned", task) as future:
        assert future.result(timeout=STARTED_SECONDS) != process


def test_a_task_that_was_given_up_in_the_queue_never_starts(processes: JoinedWork, tmp_path: Path) -> None:
    first, second = Lasting(tmp_path), Lasting(tmp_path / "second")
    second.folder.mkdir()
    with processes.asked("first", first) as future:
        first.process()
        with processes.asked("second", second):
            pass
        (tmp_path / "end").touch()
        future.result(timeout=STARTED_SECONDS)
    with processes.asked("third", first) as future:
        future.result(timeout=STARTED_SECONDS)
    assert not second.started


def test_a_killed_process_is_told_and_replaced(processes: JoinedWork, tmp_path: Path) -> None:
    task = Lasting(tmp_path)
    with processes.asked("killed", task) as future:
        os.kill(task.process(), 9)
        with pytest.raises(InternalError, match="ended"):
            future.result(timeout=STARTED_SECONDS)
    (tmp_path / "end").touch()
    with processes.asked("killed", task) as future:
        assert future.result(timeout=STARTED_SECONDS)


def test_an_unexpected_error_tells_the_caller_nothing(processes: JoinedWork) -> None:
    with processes.asked("fails", fail) as future, pytest.raises(InternalError, match="log") as told:
        future.result(timeout=STARTED_SECONDS)
    assert "secret" not in str(told.value)


def test_a_process_that_sums_up_and_writes_reports_loads_no_database_and_no_server(
    processes: JoinedWork,
) -> None:
    """SQLAlchemy comes with the ledger that it opens, and with nothing else."""
    task = Loaded(tuple(Report(Summary(each, "run", each.view)) for each in METHODS.values()))
    with processes.asked("loaded", task) as future:
        loaded = future.result(timeout=STARTED_SECONDS)
    assert {method.process.__module__ for method in METHODS.values()} <= loaded
    assert not loaded & {"sqlalchemy", "alembic", "fastapi", "httpx", "ray", "torch"}


def test_closing_gives_up_what_is_going(tmp_path: Path) -> None:
    joined = JoinedWork(summing_processes(1, object), kept=1)
    task = Lasting(tmp_path)
    with joined.asked("going", task):
        process = task.process()
        joined.close()
        assert not _runs(process)


def test_a_reader_that_is_cancelled_does_not_cancel_the_others(processes: JoinedWork, tmp_path: Path) -> None:
    here = run_context(new_ledger(tmp_path), BlobStore(f"memory://{tmp_path}"))
    context = replace(here, joined=processes)
    task = Lasting(tmp_path)

    async def read() -> int:
        one, other = (asyncio.create_task(_awaited("both", task, context)) for _ in range(2))
        await asyncio.to_thread(task.process)
        one.cancel()
        await asyncio.wait([one])
        (tmp_path / "end").touch()
        return await other

    assert asyncio.run(read()) == task.process()
    assert len(task.started) == 1


@pytest.fixture
def context(tmp_path: Path, ledger: Ledger, url: str) -> Iterator[RunContext]:
    """A context whose summaries are made by a process."""
    settings = GatewaySettings(database_url=url, store_url=str(tmp_path / "store"))
    joined = summary_processes(settings)
    yield replace(run_context(ledger, BlobStore(settings.store_url)), joined=joined)
    joined.close()


def test_a_process_makes_the_same_summary_and_report(context: RunContext, ledger: Ledger) -> None:
    run = create_run(ledger, sources=2)
    finish_all(ledger)
    here = replace(context, joined=None)
    assert summary_of(STRESS_TEST, run, None, context) == summary_of(STRESS_TEST, run, None, here)
    report, same = (asyncio.run(awaited_report(STRESS_TEST, run, None, where)) for where in (context, here))
    assert report == same
    assert asyncio.run(awaited_summary(STRESS_TEST, run, None, context)) is summary_of(
        STRESS_TEST, run, None, context
    )
    with pytest.raises(NotFound, match="'nobody'"):
        summary_of(STRESS_TEST, "nobody", None, context)
