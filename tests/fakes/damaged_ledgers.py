"""SQLite files that are damaged on purpose, at a place that the test chooses, or not the store's."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from counterpose_core.blobs import BlobStore, Mark
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.store.ownership import Ownership
from fakes.ledgers import new_ledger


def damage_table(file: Path, table: str) -> None:
    """Write random bytes over the first page of a table's tree; nobody may have the file open."""
    with closing(sqlite3.connect(file)) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = database.execute(query, (table,)).fetchone()
    _overwrite(file, (page - 1) * size, size)


def damage_start(file: Path) -> None:
    """Write random bytes over the header: the file is no database any more."""
    _overwrite(file, 0, 100)


def cut(file: Path) -> None:
    """Lose the second half, as a copy that was broken off."""
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)


def _overwrite(file: Path, offset: int, size: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(offset)
        opened.write(random.Random(7).randbytes(size))


async def damaged_ledger(folder: Path) -> None:
    """Open a ledger whose file is no database."""
    file = folder / "ledger.db"
    file.write_bytes(b"no database" * 400)
    Ledger(f"sqlite:///{file}")


async def other_ledger(folder: Path) -> None:
    """Start an empty ledger beside a store that has a blob and belongs to another one."""
    store = BlobStore(str(folder / "store"))
    store.put(b"an image")
    store.mark(Mark("f" * 32, 3))
    Ownership(new_ledger(folder), store).require()
