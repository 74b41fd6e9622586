"""Which runs the gateway has columns kept of, and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import Run
from counterpose_core.types import RunKind
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.summaries import column_keeper as keeping
from counterpose_gateway.summaries.column_keeper import KEPT_AT_ONCE, ColumnKeeper
from counterpose_gateway.summaries.columns import ColumnFolder
from counterpose_gateway.summaries.joined import JoinedWork
from fakes.ledgers import create_run, done, lease, new_ledger, planned_items
from fakes.methods import method_of
from fakes.pools import AtOnce

PART = 4
KIND: RunKind = "stress-test"


class Keeping:
    """A method that counts the parts which it is asked to keep."""

    def __init__(self) -> None:
        """Keep nothing so far."""
        self.asked: list[str] = []
        self.answers: list[int] = []

    def keep_columns(self, run: Run, context: RecordedRuns) -> int:
        """Note the run, and return the next of the answers, or 0."""
        assert context.ledger.runs.get(run.id).id == run.id
        self.asked.append(run.id)
        return self.answers.pop(0) if self.answers else 0

    def since(self) -> list[str]:
        """The runs since this was called last."""
        asked, self.asked = self.asked, []
        return asked


Kept = tuple[Ledger, Keeping, ColumnKeeper]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """A ledger, a method and a keeper of parts of four items."""
    monkeypatch.setattr(keeping, "PART", PART)
    ledger, method = new_ledger(tmp_path), Keeping()
    methods: dict[str, AnyMethod] = {KIND: method_of(KIND, keep_columns=method.keep_columns)}
    folder = ColumnFolder(tmp_path / "columns", 10**9)
    joined = JoinedWork(AtOnce(RecordedRuns(ledger=ledger, store=BlobStore("memory://keeper"))), 8)
    yield ledger, method, ColumnKeeper(ledger.runs, methods, joined, folder)
    ledger.close()


def finish(ledger: Ledger, groups: int) -> None:
    """Finish so many groups."""
    for _ in range(groups):
        for item in lease(ledger).items:
            ledger.items.finish(item.id, item.fence, done())


async def test_a_run_is_kept_when_four_parts_more_have_ended_and_at_its_end(kept: Kept) -> None:
    ledger, method, keeper = kept
    run = create_run(ledger, sources=10, per_source=KEPT_AT_ONCE)
    await keeper.look()
    assert method.since() == []
    finish(ledger, 3)
    await keeper.look()
    assert method.since() == []
    finish(ledger, 1)
    method.answers = [KEPT_AT_ONCE, 1]
    await keeper.look()
    await keeper.look()
    assert method.since() == [run, run], "there may be more after a full task"
    await keeper.look()
    assert method.since() == []
    finish(ledger, 6)
    await keeper.look()
    assert method.since() == [run]
    await keeper.look()
    assert method.since() == [], "an ended run whose columns are kept is done with"


async def test_a_run_of_a_kind_that_no_method_here_knows_is_passed_over(kept: Kept) -> None:
    ledger, method, keeper = kept
    items = planned_items(sources=5, per_source=KEPT_AT_ONCE)
    ledger.runs.create(kind="transfer", dataset="", config={}, items=items, fingerprint="f" * 64)
    run = create_run(ledger, sources=5, per_source=KEPT_AT_ONCE)
    finish(ledger, 8)
    await keeper.look()
    assert method.since() == [run]


async def test_small_runs_and_deleted_runs_are_left_alone(kept: Kept) -> None:
    ledger, method, keeper = kept
    create_run(ledger, sources=1, per_source=PART - 1)
    large = create_run(ledger, sources=5, per_source=KEPT_AT_ONCE)
    await keeper.look()
    assert [run.id for run in ledger.runs.large(least_items=PART, known=[])] == [large]
    ledger.runs.cancel(large)
    assert [run.id for run in ledger.runs.large(least_items=PART, known=[large])] == [large]
    ledger.runs.delete(large)
    assert ledger.runs.large(least_items=PART, known=[large]) == []
    await keeper.look()
    assert method.since() == []


async def test_files_of_runs_that_are_gone_are_swept(kept: Kept, tmp_path: Path) -> None:
    ledger, _, keeper = kept
    run = create_run(ledger)
    for name in (run, "run-of-another-gateway"):
        (tmp_path / "columns" / name).mkdir(parents=True)
    await keeper.look()
    assert [each.name for each in (tmp_path / "columns").iterdir()] == [run]
