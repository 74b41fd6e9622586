"""A run of 100,000 items while it is resumed and deleted: how long it takes, and who waits for it (M1)."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Literal

from sqlalchemy import text

from counterpose_gateway.ledger import Ledger
from evaluation.load.bulk import load_run, writing
from evaluation.load.databases import DATABASES, ledgers
from evaluation.load.measuring import Load
from evaluation.load.report import LoadRow
from fakes.ledgers import create_run

GROUP = "planning"
PER_SOURCE = 8
WAIT_MS = 100.0
PAUSE = 0.02

Verb = Literal["resume", "delete"]


def changes(load: Load) -> Iterator[LoadRow]:
    """Yield the figures of resuming and of deleting a run whose items are all cancelled, on each database."""
    items = 20_000 if load.quick else 100_000
    for database in DATABASES:
        with ledgers(load.folder, database) as [(ledger, url)]:
            run_id = load_run(ledger, url, sources=items // PER_SOURCE, per_source=PER_SOURCE)
            other = create_run(ledger)
            _end(url, run_id)
            _add_events(url, run_id, items)
            yield from _rows(load, database, items, url, run_id, other, "resume")
            _end(url, run_id)
            yield from _rows(load, database, items, url, run_id, other, "delete")


def _rows(
    load: Load, database: str, items: int, url: str, run_id: str, other: str, verb: Verb
) -> Iterator[LoadRow]:
    what = f"{database}: a run of {items:,} items is {'resumed' if verb == 'resume' else 'deleted'}"
    seconds, waits = _measured(load.folder, url, run_id, other, verb)
    yield LoadRow(
        group=GROUP, name=what, meets=("M1",), unit="s", value=seconds, low=seconds, high=seconds, n=1
    )
    waited = [1000 * each for each in waits]
    yield LoadRow(
        group=GROUP, name=f"{what}: longest wait of another writer", meets=("M1",), unit="ms",
        value=max(waited), low=min(waited), high=max(waited), n=len(waited),
        target=None if load.quick else WAIT_MS,
    )  # fmt: skip


def _measured(folder: Path, url: str, run_id: str, other: str, verb: Verb) -> tuple[float, list[float]]:
    stop = folder / f"stop-{verb}"
    stop.unlink(missing_ok=True)
    # A process each: none holds the lock of another's interpreter.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as beside, ProcessPoolExecutor(1, spawn) as changing:
        writer = beside.submit(_rename_beside, url, other, stop)
        try:
            seconds = changing.submit(_change, url, run_id, verb).result()
        finally:
            stop.touch()
        return seconds, writer.result()


def _change(url: str, run_id: str, verb: Verb) -> float:
    with closing(Ledger(url, check_seconds=0)) as ledger:
        start = time.perf_counter()
        getattr(ledger.runs, verb)(run_id)
        return time.perf_counter() - start


def _rename_beside(url: str, run_id: str, stop: Path) -> list[float]:
    """Rename another run again and again; return how long each took, with its commit."""
    waits = list[float]()
    with closing(Ledger(url, check_seconds=0)) as ledger:
        while not stop.exists():
            start = time.perf_counter()
            ledger.runs.rename(run_id, f"the name of {len(waits)}")
            waits.append(time.perf_counter() - start)
            time.sleep(PAUSE)
    return waits


def _end(url: str, run_id: str) -> None:
    """Cancel every item of a run by two statements: the product's own way is not what is measured."""
    ended = "ended_at = created_at, pending = 0, cancelled = total, state = 'cancelled'"
    with writing(url) as connection:
        for statement in (
            "UPDATE items SET state = 'cancelled' WHERE run_id = :run",
            f"UPDATE runs SET {ended} WHERE id = :run",
        ):
            connection.execute(text(statement), {"run": run_id})


def _add_events(url: str, run_id: str, count: int) -> None:
    """Give a run an event for each item, as one has that has been worked on."""
    with writing(url) as connection:
        connection.execute(
            text(
                "INSERT INTO events (run_id, state, counts, message) "
                "SELECT items.run_id, events.state, events.counts, events.message FROM items "
                "JOIN (SELECT * FROM events WHERE run_id = :run LIMIT 1) events ON true "
                "WHERE items.run_id = :run LIMIT :count"
            ),
            {"run": run_id, "count": count},
        )
        if connection.dialect.name == "postgresql":
            # What autovacuum does soon after.
            connection.execute(text("ANALYZE"))
