"""A PostgreSQL database that a test used is lent again only if nothing of that test is left in it."""

from __future__ import annotations

import psycopg
import pytest

from counterpose_gateway.ledger import Ledger
from fakes.emptied_databases import Contents
from fakes.ledgers import create_run, finish_all
from fakes.postgres import PostgresServer

pytestmark = pytest.mark.postgres


def test_a_used_database_is_lent_again_with_the_contents_of_a_new_one(
    postgres_server: PostgresServer,
) -> None:
    new = Contents.of(postgres_server.migrated_database())
    with postgres_server.lent_database() as used:
        ledger = Ledger(used)
        first = ledger.events.page(create_run(ledger), after=0)[0].id
        finish_all(ledger)
        ledger.close()
        assert Contents.of(used).rows.keys() > new.rows.keys()
    with postgres_server.lent_database() as again:
        assert again == used
        assert Contents.of(again) == new
        ledger = Ledger(again)
        assert ledger.events.page(create_run(ledger), after=0)[0].id == first
        ledger.close()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE runs ADD COLUMN spare integer",
        "DROP INDEX {index}",
        "CREATE TABLE spare (id integer)",
        "ALTER DATABASE {database} SET synchronous_commit = off",
    ],
)
def test_a_database_that_was_changed_is_not_lent_again(postgres_server: PostgresServer, change: str) -> None:
    with postgres_server.lent_database() as used, psycopg.connect(used) as connection:
        indexes = (
            "SELECT indexname FROM pg_indexes WHERE schemaname = 'public' AND indexdef NOT LIKE '%UNIQUE%'"
        )
        (index,) = connection.execute(indexes).fetchone() or ("",)
        connection.execute(change.format(index=index, database=used.rpartition("/")[2]).encode())
    with postgres_server.lent_database() as again:
        assert again != used


def test_a_database_that_someone_still_uses_is_not_lent_again(postgres_server: PostgresServer) -> None:
    with postgres_server.lent_database() as used:
        left = psycopg.connect(used)
    with postgres_server.lent_database() as again:
        assert again != used
    left.close()
