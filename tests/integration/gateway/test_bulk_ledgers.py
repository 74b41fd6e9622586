"""Ledgers that the load measurements copy together are what the product writes."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Table, select

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from evaluation.load.bulk import load_run, load_runs
from fakes.ledger_audit import violated, violated_totals
from fakes.ledgers import create_run, finish_all


def _rows(ledger: Ledger, table: Table, run_id: str) -> list[dict[str, Any]]:
    """The rows of a run without the id of the run and the numbers that the database gives."""
    mine = (table.c.id if table is schema.runs else table.c.run_id) == run_id
    order = table.c.ordinal if table is schema.items else table.c.id
    with ledger._session.database.reading() as connection:
        found = [
            dict(row) for row in connection.execute(select(table).where(mine).order_by(order)).mappings()
        ]
    for row in found:
        row["id"] = str(row["id"]).rpartition(".")[2] if table is schema.items else None
        row.pop("run_id", None)
        # Each stands behind those before it.
        row.pop("served_at", None)
    return found


@pytest.mark.parametrize("table", [schema.runs, schema.items, schema.events], ids=str)
def test_a_copied_run_of_1_000_items_equals_one_that_the_product_writes(
    ledger: Ledger, url: str, table: Table
) -> None:
    written = create_run(ledger, sources=125, per_source=8)
    copied = load_run(ledger, url, sources=125, per_source=8)
    assert _rows(ledger, table, copied) == _rows(ledger, table, written)


def test_a_copied_run_is_worked_off_like_any_other(ledger: Ledger, url: str) -> None:
    run_id = load_run(ledger, url, sources=4, per_source=3)
    assert (violated(ledger, run_id), violated_totals(ledger)) == ([], [])
    finish_all(ledger)
    assert ledger.runs.get(run_id).request_counts.done == 12
    assert violated(ledger, run_id) == []


def test_copied_runs_differ_in_id_and_time_alone(ledger: Ledger, url: str) -> None:
    first, *others = load_runs(ledger, url, 40, items=2)
    for table in (schema.runs, schema.items, schema.events):
        model, *copies = (
            [{**row, "created_at": 0} for row in _rows(ledger, table, run_id)] for run_id in (first, *others)
        )
        assert all(copy == model for copy in copies)
    assert [run.id for run in ledger.runs.page(limit=100).runs] == [*reversed(others), first]
    assert (ledger.measurements.active_runs(), violated_totals(ledger)) == (40, [])
    finish_all(ledger)
    assert {run.state for run in ledger.runs.page(limit=100).runs} == {"completed"}
