"""New ledgers on either database, with every commit on the disk, as in a user's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp

from counterpose_gateway.ledger import Ledger
from fakes.ledgers import migrated_file
from fakes.postgres import can_run_postgres, postgres

DATABASES = ("SQLite", "PostgreSQL") if can_run_postgres() else ("SQLite",)
"""What can be measured here."""

OTHERS = DATABASES[1:]
"""Those beside SQLite, of groups that name it alone in the rows of others."""


@contextmanager
def ledgers(folder: Path, database: str, count: int = 1) -> Iterator[list[tuple[Ledger, str]]]:
    """Open new ledgers, each with its database's address."""
    with ExitStack() as stack:
        urls = _urls(folder, database, count, stack)
        opened = [Ledger(url) for url in urls]
        for ledger in opened:
            stack.callback(ledger.close)
        yield list(zip(opened, urls, strict=True))


def _urls(folder: Path, database: str, count: int, stack: ExitStack) -> list[str]:
    if database == "SQLite":
        return [migrated_file(Path(mkdtemp(dir=folder))) for _ in range(count)]
    server = stack.enter_context(postgres(durable=True))
    return [server.migrated_database() for _ in range(count)]
