"""Cached summaries: made again only after the run changes, and limited in number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier
from unittest.mock import Mock

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import NotFound
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.runs.context import RecordedRuns, RunContext
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.summaries.joined import JoinedWork
from counterpose_gateway.summaries.summaries import awaited_report, summary_of
from fakes.contexts import run_context
from fakes.ledgers import create_run, done, finish_all, lease
from fakes.pools import AtOnce

READERS = 2


@dataclass
class Counted:
    """Summarises, and records the run."""

    made: list[str] = field(default_factory=list)

    @property
    def method(self) -> AnyMethod:
        """The method that does so."""
        return replace(STRESS_TEST, summarize=self._summarize)

    def _summarize(
        self, run: Run, items: Iterable[Item], view: Thresholds | None, context: RecordedRuns
    ) -> StressTestSummary:
        self.made.append(run.id)
        return STRESS_TEST.summarize(run, items, view, context)


def report_of(method: AnyMethod, run: str, view: Thresholds | None, context: RunContext) -> str:
    """Wait for the report of a run."""
    return asyncio.run(awaited_report(method, run, view, context))


@pytest.fixture
def context(tmp_path: Path, ledger: Ledger) -> RunContext:
    """The test's ledger and store, with room for two summaries."""
    return run_context(ledger, BlobStore(f"memory://{tmp_path}"), kept=2)


def test_an_unchanged_run_is_summarised_once(ledger: Ledger, context: RunContext) -> None:
    counted, run = Counted(), create_run(ledger)
    first = summary_of(counted.method, run, None, context)
    assert summary_of(counted.method, run, None, context) is first
    assert counted.made == [run]


def test_concurrent_readers_share_one_summary(
    ledger: Ledger, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, run = Counted(), create_run(ledger)
    both_asked = Barrier(READERS)
    last_event = ledger.events.last

    def meet(run_id: str) -> object:
        both_asked.wait(timeout=100)
        return last_event(run_id)

    monkeypatch.setattr(ledger.events, "last", meet)
    with ThreadPoolExecutor(READERS) as readers:
        asked = [readers.submit(summary_of, counted.method, run, None, context) for _ in range(READERS)]
        first, second = (answer.result() for answer in asked)
    assert first is second
    assert counted.made == [run]


def test_a_summary_reflects_every_change_of_the_run(ledger: Ledger, context: RunContext) -> None:
    counted, run = Counted(), create_run(ledger, sources=1, per_source=2)
    assert summary_of(counted.method, run, None, context).counts["pending"] == 2
    item = lease(ledger).items[0]
    ledger.items.finish(item.id, item.fence, done())
    assert summary_of(counted.method, run, None, context).counts["done"] == 1
    ledger.runs.cancel(run)
    assert summary_of(counted.method, run, None, context).counts["cancelled"] == 1
    assert len(counted.made) == 3


def test_the_report_uses_the_cached_summary(ledger: Ledger, context: RunContext) -> None:
    counted, run = Counted(), create_run(ledger, sources=1)
    finish_all(ledger)
    summary_of(counted.method, run, None, context)
    assert run in report_of(counted.method, run, None, context)
    assert counted.made == [run]


@pytest.mark.parametrize("in_processes", [False, True])
def test_a_report_is_one_task_and_reads_the_state_once(
    ledger: Ledger, context: RunContext, monkeypatch: pytest.MonkeyPatch, *, in_processes: bool
) -> None:
    counted, run = Counted(), create_run(ledger, sources=1)
    finish_all(ledger)
    pool = AtOnce(context)
    context = replace(context, joined=JoinedWork(pool, 2) if in_processes else None)
    states = Mock(wraps=ledger.events.last)
    monkeypatch.setattr(ledger.events, "last", states)
    assert run in report_of(counted.method, run, None, context)
    assert (counted.made, states.call_count, pool.tasks) == ([run], 1, 1 if in_processes else 0)
    summary_of(counted.method, run, None, context)
    assert run in report_of(counted.method, run, None, context)
    assert (counted.made, pool.tasks) == ([run, run], 3 if in_processes else 0)


def test_a_report_is_kept_for_those_who_say_so(ledger: Ledger, context: RunContext) -> None:
    counted, run = Counted(), create_run(ledger, sources=1)
    finish_all(ledger)

    def read() -> str:
        return asyncio.run(awaited_report(counted.method, run, None, context, keep=True))

    assert read() is read()
    assert counted.made == [run]


def test_only_the_latest_summaries_are_cached(ledger: Ledger, context: RunContext) -> None:
    counted, runs = Counted(), [create_run(ledger, sources=1) for _ in range(3)]
    for run in (*runs, runs[2], runs[1], runs[0]):
        summary_of(counted.method, run, None, context)
    assert counted.made == [*runs, runs[0]]


@pytest.mark.parametrize("read", [summary_of, report_of])
def test_an_unknown_run_has_neither_summary_nor_report(
    read: Callable[..., object], context: RunContext
) -> None:
    with pytest.raises(NotFound, match="'nobody'"):
        read(Counted().method, "nobody", None, context)
