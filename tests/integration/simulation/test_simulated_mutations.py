"""The simulation finds what it is for: each of these defects, put into the product's code, is found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, RowMapping, func, insert, select

from counterpose_core.blobs import BlobStore, digest
from counterpose_core.contract.runs import Run
from counterpose_core.contract.spending import Spent
from counterpose_gateway.ledger.items import outcomes
from counterpose_gateway.ledger.runs import changes, transitions
from counterpose_gateway.ledger.runs.runs import Runs
from counterpose_gateway.ledger.runs.spending import SpendingRows
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.progress import following
from counterpose_gateway.records.outcomes import Ended
from counterpose_gateway.worker import worker
from simulation.faults import Point
from simulation.simulating import simulate

SEEDS = 40
"""Of which the first that meets the defect ends the search."""


def first_violation(*likely: Point) -> str:
    """What the first seed that finds anything finds, where these faults are likely."""
    for seed in range(SEEDS):
        if (found := simulate(seed, likely=likely).violation) is not None:
            return found
    return f"nothing in {SEEDS} seeds"


def without_fence(connection: Connection, ended: Sequence[Ended]) -> dict[tuple[str, int], RowMapping]:
    """Take whatever lease the item has for the caller's."""
    found = connection.execute(outcomes._LEASED, {"ids": [each.item_id for each in ended]}).mappings()
    leased = {item["id"]: item for item in found}
    return {(each.item_id, each.fence): leased[each.item_id] for each in ended if each.item_id in leased}


@pytest.mark.fault("F6")
def test_a_dropped_fence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "_leased", without_fence)
    # A worker must stop for longer than its lease while its item is leased to another.
    assert first_violation(
        "worker stops before a call", "worker stops after a call", "service is slow"
    ).startswith("I5: ")


def test_a_row_before_its_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = BlobStore.put

    def stored_later(store: BlobStore, data: bytes) -> str:
        asyncio.get_running_loop().call_later(0.5, stored, store, data)
        return digest(data)

    monkeypatch.setattr(BlobStore, "put", stored_later)
    assert first_violation().startswith("I3: ")


def test_a_lease_that_is_not_renewed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(worker, "keep_leased", never)
    assert first_violation("service is slow").startswith("I5: ")


def test_a_call_that_is_counted_only_once_it_is_answered_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    reserve, settle = SpendingRows.reserve, SpendingRows.settle

    def counted(rows: SpendingRows, run_id: str, call: str, spent: Spent) -> None:
        reserve(rows, run_id, call, "editor", spent)
        settle(rows, run_id, call, spent)

    monkeypatch.setattr(SpendingRows, "reserve", lambda *_, **__: None)
    monkeypatch.setattr(SpendingRows, "settle", counted)
    assert first_violation().startswith("I8: ")


def test_a_lost_cancel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def answered_only(runs: Runs, run_id: str) -> Run:
        return runs.get(run_id).model_copy(update={"state": "cancelled"})

    monkeypatch.setattr(Runs, "cancel", answered_only)
    assert first_violation("run is cancelled").startswith("I7: ")


def test_a_cancellation_that_leaves_leases_valid_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_cancelled(connection: Connection, run: RowMapping, most: int) -> int:
        return min(most, int(run["pending"]))

    monkeypatch.setattr(changes, "_cancel_some", none_cancelled)
    assert first_violation("run is cancelled").startswith("I1: ")


def test_an_event_number_that_is_used_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = select(func.coalesce(func.max(schema.events.c.id), 0) + 1).scalar_subquery()
    monkeypatch.setattr(transitions, "_NEW_EVENT", insert(schema.events).values(id=newest))
    assert first_violation("run is deleted").startswith("events: ")


def test_an_event_that_is_sent_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def since(run: following.FollowedRun, after: int) -> list[following.Told]:
        return [event for event in run._events if event.id >= after]

    monkeypatch.setattr(following.FollowedRun, "since", since)
    assert first_violation().startswith("events: ")
