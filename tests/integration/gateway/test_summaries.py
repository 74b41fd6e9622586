"""Kept summaries: made again only when the run has moved on, and never more of them than a few."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fakes.ledgers import create_run, done, finish_all, lease
from faultline_core.blobs import BlobStore
from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import StressTestSummary
from faultline_core.errors import NotFound
from faultline_gateway import summaries
from faultline_gateway.ledger import Ledger
from faultline_gateway.summaries import Summaries
from faultline_gateway.workflows import stress_test


class Counting:
    """Sums up as ever and notes for which run."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self._summarize = stress_test.summarize

    def __call__(self, run: Run, items: Sequence[Item]) -> StressTestSummary:
        """Sum the run up."""
        self.made.append(run.id)
        return self._summarize(run, items)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """Every summary made in the test."""
    counting = Counting()
    monkeypatch.setattr(summaries, "summarize", counting)
    return counting


@pytest.fixture
def kept(tmp_path: Path, ledger: Ledger) -> Summaries:
    """Summaries over the test's ledger."""
    return Summaries(ledger, BlobStore(f"memory://{tmp_path}"))


def test_a_run_that_stands_still_is_summed_up_once(
    ledger: Ledger, kept: Summaries, counting: Counting
) -> None:
    run = create_run(ledger)
    first = kept.summary(run)
    assert kept.summary(run) is first
    assert counting.made == [run]


def test_every_step_of_the_run_is_seen_by_the_next_summary(
    ledger: Ledger, kept: Summaries, counting: Counting
) -> None:
    run = create_run(ledger, sources=1, per_source=2)
    assert kept.summary(run).counts["pending"] == 2
    item = lease(ledger).items[0]
    ledger.finish(item.id, item.fence, done())
    assert kept.summary(run).counts["done"] == 1
    ledger.cancel(run)
    assert kept.summary(run).counts["cancelled"] == 1
    assert len(counting.made) == 3


def test_the_report_is_made_of_the_kept_summary(ledger: Ledger, kept: Summaries, counting: Counting) -> None:
    run = create_run(ledger, sources=1)
    finish_all(ledger)
    kept.summary(run)
    assert run in kept.report(run)
    assert counting.made == [run]


def test_only_the_last_few_are_kept(
    ledger: Ledger, kept: Summaries, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "KEPT", 2)
    runs = [create_run(ledger, sources=1) for _ in range(3)]
    for run in (*runs, runs[2], runs[1], runs[0]):
        kept.summary(run)
    assert counting.made == [*runs, runs[0]]


@pytest.mark.parametrize("verb", ["summary", "report"])
def test_an_unknown_run_has_neither_summary_nor_report(kept: Summaries, verb: str) -> None:
    with pytest.raises(NotFound, match="'nobody'"):
        getattr(kept, verb)("nobody")
