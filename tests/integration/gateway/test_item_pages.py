"""Pages of items of large runs: each looks at a bounded number of items, whatever is asked for."""

from __future__ import annotations

import re
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.runs import Item, PageOfItems
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.items import items as item_pages
from counterpose_gateway.records.outcomes import Failed
from fakes.gateway import FakeGateway
from fakes.ledgers import create_run, done, finish_all, lease

LOOKED_AT = 10
SOURCES, PER_SOURCE = 9, 5
LAST = SOURCES * PER_SOURCE - 1


@pytest.fixture(autouse=True)
def _few_at_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_pages, "LOOKED_AT", LOOKED_AT)


def one_failed(ledger: Ledger) -> str:
    """A run whose items ended well, but for the last one."""
    run_id = create_run(ledger, sources=SOURCES, per_source=PER_SOURCE)
    for _ in range(SOURCES):
        for item in lease(ledger).items:
            ended = Failed(code="bad-backend-output", detail="") if item.ordinal == LAST else done()
            ledger.items.finish(item.id, item.fence, ended)
    return run_id


def pages(ledger: Ledger, run_id: str, limit: int = 4, **wanted: Any) -> list[PageOfItems[Item]]:
    found = [ledger.items.page(run_id, Item, limit=limit, **wanted)]
    while (after := found[-1].after) is not None:
        found.append(ledger.items.page(run_id, Item, limit=limit, after=after, **wanted))
    return found


def test_items_of_a_rare_state_are_found_by_one_look(ledger: Ledger) -> None:
    run_id = one_failed(ledger)
    assert [[item.ordinal for item in page.items] for page in pages(ledger, run_id, state="failed")] == [
        [LAST]
    ]
    create_run(ledger, sources=SOURCES, per_source=PER_SOURCE)
    group = lease(ledger)
    leased = [[item.id for item in page.items] for page in pages(ledger, group.run_id, 9, state="leased")]
    assert leased == [[item.id for item in group.items]]
    for _ in range(SOURCES - 2):
        lease(ledger)
    few = [item.ordinal for page in pages(ledger, group.run_id, 9, state="pending") for item in page.items]
    assert few == list(range(LAST + 1 - PER_SOURCE, LAST + 1))


def test_a_rare_item_of_a_state_and_a_class_is_found_in_bounded_looks(ledger: Ledger) -> None:
    run_id = one_failed(ledger)
    found = pages(ledger, run_id, state="done", label="boat")
    assert [page.items for page in found] == [[]] * (LAST // LOOKED_AT + 1)
    assert len(pages(ledger, run_id, state="failed", label="boat")) == 1


@pytest.mark.parametrize("state", ["failed", "leased"])
def test_sqlite_takes_the_index_of_the_state(tmp_path: Path, state: Any) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    run_id, statements = one_failed(ledger), list[str]()
    with ledger._session.database.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_trace_callback(statements.append)
    ledger.items.page(run_id, Item, state=state)
    [look] = [each for each in statements if re.search("FROM items", each)]
    plan = " ".join(row[3] for row in driver.execute(f"EXPLAIN QUERY PLAN {look}"))
    assert {"failed": "items_ended (run_id=? AND state=?", "leased": "items_ready (run_id=? AND stage=?"}[
        state
    ] in plan
    ledger.close()


def test_filtered_pages_neither_repeat_nor_skip(ledger: Ledger) -> None:
    run_id = one_failed(ledger)
    ordinals = [item.ordinal for each in pages(ledger, run_id, state="done") for item in each.items]
    assert ordinals == list(range(LAST))
    assert all(before < after for before, after in pairwise(ordinals))
    assert pages(ledger, run_id, label="boat")[-1].after is None


def test_a_page_of_all_items_is_full_however_few_are_looked_at(ledger: Ledger) -> None:
    run_id = one_failed(ledger)
    assert [len(page.items) for page in pages(ledger, run_id, limit=20)] == [20, 20, 5]


def test_the_newest_items_are_those_about_which_the_run_works(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=SOURCES, per_source=PER_SOURCE)
    assert ledger.items.newest(run_id, Item, kind="edit", limit=3) == []
    for item in (item for _ in range(4) for item in lease(ledger).items):
        ledger.items.finish(item.id, item.fence, done())
    newest = ledger.items.newest(run_id, Item, kind="edit", limit=3)
    assert [item.ordinal for item in newest] == [19, 18, 17]
    finish_all(ledger)
    newest = ledger.items.newest(run_id, Item, kind="edit", limit=3)
    assert [item.ordinal for item in newest] == [LAST, LAST - 1, LAST - 2]


async def test_a_browser_s_page_of_rare_items_is_not_empty(gateway: FakeGateway) -> None:
    run_id = one_failed(gateway.ledger)
    answer = await gateway.http.get(f"/ui/runs/{run_id}/items", params={"state": "failed"})
    assert f"{run_id}.{LAST}" in answer.text
