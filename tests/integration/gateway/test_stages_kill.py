"""Runs in stages with processes killed at every boundary: nothing is lost or repeated."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from counterpose_core.contract.runs import ItemResult, Run, RunItem
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.runs.stages import StagePlan
from fakes.ledger_audit import violated
from fakes.ledger_worker import acknowledged
from fakes.processes import Start, child_processes, look_until
from fakes.staged_runs import FourStages, create_staged_run, finish_all_but_the_last, plan_one, stored_keys
from fakes.staged_worker import SMALL_CHUNK, Boundary, work_in_stages

LEASE_SECONDS = 0.3
FIRST = 4
SECOND_CHUNK = 1
FEW = 2 * SMALL_CHUNK + 2
MANY = 20_000

BOUNDARIES: list[tuple[Boundary, tuple[int, ...]]] = [
    ("finalizing", (2, 3, 5)),
    ("within-a-chunk", (2, 4)),
    ("before-the-opening", (2, 3, 4)),
    ("within-the-opening", (2, 3, 4)),
    ("opened", (2, 3, 4)),
    ("before-the-end", (5,)),
]


@pytest.fixture
def start() -> Iterator[Start]:
    with child_processes() as start_one:
        yield start_one


@pytest.fixture
def watched(url: str) -> Iterator[Ledger]:
    """The ledger as another reader sees it while the processes work."""
    opened = Ledger(url)
    yield opened
    opened.close()


def keys(many: int) -> list[tuple[int, str]]:
    """Stage and key of every item of a run without a kill."""
    first = [(1, f"key-{number}") for number in range(FIRST)]
    confirmed = [(2, f"confirm-{number}") for number in range(FIRST)]
    return [*first, *confirmed, *((4, f"many-{number}") for number in range(many))]


def add_up(ledger: Ledger, run_id: str, many: int) -> None:
    """The total counts only opened stages and is the sum of the other counts: other runs cannot be read."""
    run = ledger.runs.get(run_id)
    assert run.request_counts.total == {1: FIRST, 2: 2 * FIRST, 3: 2 * FIRST, 4: 2 * FIRST + many}[run.stage]


def watch_until(ledger: Ledger, run_id: str, many: int, holds: Callable[[], bool]) -> None:
    """Check the totals against the stages at every reading, and the items against the totals at the last."""

    def look() -> bool:
        add_up(ledger, run_id, many)
        return holds()

    look_until(look)
    assert violated(ledger, run_id) == []


def has_halted(log: Path, boundary: Boundary, stage: int) -> bool:
    return acknowledged(log)[-1:] == [f"{boundary} {stage}"]


def has_ended(ledger: Ledger, run_id: str) -> bool:
    return ledger.runs.get(run_id).state in FINAL_RUN_STATES


@pytest.mark.parametrize(("boundary", "stages"), BOUNDARIES, ids=[boundary for boundary, _ in BOUNDARIES])
def test_kills_at_every_stage_boundary_lose_and_repeat_nothing(
    url: str, watched: Ledger, tmp_path: Path, start: Start, boundary: Boundary, stages: tuple[int, ...]
) -> None:
    run_id, log = create_staged_run(watched), tmp_path / "log"
    for stage in stages:
        halt = (boundary, stage, SECOND_CHUNK)
        process = start(work_in_stages, url, run_id, FEW, log, LEASE_SECONDS, halt)
        watch_until(watched, run_id, FEW, partial(has_halted, log, boundary, stage))
        process.kill()
        process.join()
    start(work_in_stages, url, run_id, FEW, log, LEASE_SECONDS, None)
    watch_until(watched, run_id, FEW, partial(has_ended, watched, run_id))
    assert watched.runs.get(run_id).state == "completed"
    assert stored_keys(url, run_id) == keys(FEW)


class Watching(FourStages):
    """Counts the largest number of items in memory at once."""

    read = 0
    most_alive = 0

    def next_stage(self, run: Run, results: Iterator[RunItem[ItemResult]]) -> StagePlan | None:
        """Read everything, and check from time to time what is still in memory."""
        for _ in results:
            self.read += 1
            if self.read % 2_000 == 0:
                # Not isinstance, which would load lazy objects of other libraries.
                alive = sum(issubclass(type(thing), RunItem) for thing in gc.get_objects())
                self.most_alive = max(self.most_alive, alive)
        return None


async def test_a_stage_of_20_000_items_survives_kills_and_is_read_in_pages(
    url: str, watched: Ledger, tmp_path: Path, start: Start
) -> None:
    run_id, log = create_staged_run(watched), tmp_path / "log"
    halts: list[tuple[Boundary, int, int]] = [
        ("opened", 3, 0), ("within-a-chunk", 4, 20), ("before-the-opening", 4, 0), ("opened", 4, 0),
    ]  # fmt: skip
    for boundary, stage, chunk in halts:
        process = start(work_in_stages, url, run_id, MANY, log, LEASE_SECONDS, (boundary, stage, chunk))
        watch_until(watched, run_id, MANY, partial(has_halted, log, boundary, stage))
        process.kill()
        process.join()
    assert watched.runs.get(run_id).request_counts.pending == MANY
    finish_all_but_the_last(url, run_id)
    process = start(work_in_stages, url, run_id, MANY, log, LEASE_SECONDS, ("finalizing", 5, 0))
    watch_until(watched, run_id, MANY, partial(has_halted, log, "finalizing", 5))
    process.kill()
    method = Watching(MANY)
    assert await plan_one(watched, method)
    assert violated(watched, run_id) == []
    assert watched.runs.get(run_id).state == "completed"
    assert stored_keys(url, run_id) == keys(MANY)
    assert method.read == 2 * FIRST + MANY
    assert 0 < method.most_alive < 1_000
