"""How many items a second sixteen hands lease and record, beside the bare database's commits."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import psycopg

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.outcomes import Ended
from evaluation.load.bulk import load_run
from evaluation.load.databases import DATABASES, ledgers
from evaluation.load.measuring import Load, row
from evaluation.load.report import LoadRow
from fakes.ledgers import done

HANDS = 16
TARGETS = {"SQLite": 300.0, "PostgreSQL": 1_000.0}
GROUP = 8
"""Items of a group, as of a source with eight edits; they end together."""

RUNS = 4
"""Runs that the hands take turns on."""

REPEATS, SECONDS, QUICK_SECONDS = 3, 10.0, 2.0


def measure(load: Load) -> Iterator[LoadRow]:
    """Yield items a second by database, in one run and in several, and the bare commits around them."""
    seconds = QUICK_SECONDS if load.quick else SECONDS
    # Enough that a machine ten times as fast does not run out of them.
    groups = round(1_000 * seconds)
    for database in DATABASES:
        for runs in (RUNS, 1):
            rates, commits = [], []
            with ledgers(load.folder, database) as [(ledger, url)]:
                for _ in range(1 if load.quick else REPEATS):
                    for _ in range(runs):
                        load_run(ledger, url, sources=groups // runs, per_source=GROUP)
                    # In the same minute: the disk's share of the figure, whatever else the machine does.
                    commits.append(bare_commits(url, seconds / 2))
                    rates.append(_rate(lambda: _work(ledger), seconds, HANDS))
            one = "run" if runs == 1 else "runs"
            what = f"Leased and recorded by {HANDS} hands, {runs} {one}, {database}"
            yield row(
                "ledger",
                what,
                "items/s",
                rates,
                meets=("H1", "L3"),
                target=TARGETS[database],
                side="at least",
            )
            where = f"Bare commits in the same minute, {runs} {one}, {database}"
            yield row("ledger", where, "commits/s", commits, meets=())


def _work(ledger: Ledger) -> int:
    group = ledger.items.lease("worker", seconds=600)
    if group is None:
        raise RuntimeError("the ledger ran out of items; load more")
    ledger.items.finish_many(
        [Ended(item_id=item.id, fence=item.fence, outcome=done()) for item in group.items]
    )
    return len(group.items)


def _rate(work: Callable[[], int], seconds: float, hands: int) -> float:
    """Return what ``hands`` threads did a second."""
    stop = threading.Event()

    def serve() -> int:
        did = 0
        while not stop.is_set():
            did += work()
        return did

    start = time.perf_counter()
    with ThreadPoolExecutor(hands) as pool:
        serving = [pool.submit(serve) for _ in range(hands)]
        stop.wait(seconds)
        stop.set()
        total = sum(each.result() for each in serving)
    return total / (time.perf_counter() - start)


def bare_commits(url: str, seconds: float) -> float:
    """Return commits of one small row a second: by one writer on SQLite, by all hands on PostgreSQL."""
    if url.startswith("sqlite"):
        return _bare_sqlite(Path(url.removeprefix("sqlite:///")).parent / "bare.db", seconds)
    with psycopg.connect(url, autocommit=True) as setting:
        setting.execute("CREATE TABLE IF NOT EXISTS bare (id BIGSERIAL PRIMARY KEY, words TEXT)")
    threads, opened = threading.local(), list[psycopg.Connection]()

    def insert() -> int:
        if not hasattr(threads, "connection"):
            threads.connection = psycopg.connect(url, autocommit=True)
            opened.append(threads.connection)
        threads.connection.execute("INSERT INTO bare (words) VALUES ('a sled')")
        return 1

    rate = _rate(insert, seconds, HANDS)
    for connection in opened:
        connection.close()
    return rate


def _bare_sqlite(path: Path, seconds: float) -> float:
    bare = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        bare.execute(f"PRAGMA {pragma}")
    bare.execute("CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, words TEXT)")
    numbers = count()

    def insert() -> int:
        bare.execute("INSERT INTO bare (words) VALUES (?)", (f"a sled {next(numbers)}",))
        return 1

    rate = _rate(insert, seconds, 1)
    bare.close()
    return rate
