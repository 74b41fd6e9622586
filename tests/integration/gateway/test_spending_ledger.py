"""The account of a run in the ledger: reservations, settlements, budgets and what waits for them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, update

from counterpose_core.contract.spending import MOST_COUNTED, LargerLimits, Price, Spent
from counterpose_core.errors import BudgetSpent, InvalidRequest
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.outcomes import Ended, Failed
from counterpose_gateway.records.spending import Allotment, Lease
from counterpose_gateway.worker.spending import LEASE, LedgerAccounts
from fakes.ledgers import Clock, config, create_run, finish_all, lease, planned_items

ONE = Spent(calls=1, images=1)


def rows_of(ledger: Ledger) -> int:
    """How many rows of spending and of budgets there are."""
    with ledger._session.reading() as connection:
        return sum(
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (schema.spending, schema.spending_limits)
        )


def limited(ledger: Ledger, limits: Allotment, sources: int = 3) -> str:
    """A run with such limits."""
    asked = config()
    asked["request"]["spending"] = limits.model_dump(mode="json", include={"usd", "images"})
    return ledger.runs.create(
        kind="stress-test", dataset="demo", config=asked, items=planned_items(sources, 3),
        fingerprint="f" * 64, spending=limits,
    ).id  # fmt: skip


def test_reservations_of_many_threads_fit_into_the_budget_exactly(ledger: Ledger) -> None:
    run = limited(ledger, Allotment(images=20))
    together = threading.Barrier(6)

    def reserve(number: int) -> int:
        together.wait()
        calls = (f"{number:02}{call:030}" for call in range(8))
        return sum(ledger.spending.reserve(run, call, "editor", ONE) is None for call in calls)

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(reserve, range(6))) == 20
    told = ledger.spending.of(run)
    assert told is not None
    assert (told.total, told.unanswered) == (Spent(calls=20, images=20), Spent(calls=20, images=20))


def test_a_call_is_settled_once_at_what_it_cost(ledger: Ledger) -> None:
    run = limited(ledger, Allotment(usd=1.0, prices={"editor": Price(usd_per_image=0.25)}))
    assert ledger.spending.reserve(run, "a" * 32, "editor", Spent(calls=2, images=2)) is None
    assert ledger.spending.reserve(run, "b" * 32, "editor", Spent(calls=2, images=2)) is None
    assert ledger.spending.reserve(run, "c" * 32, "editor", ONE) is not None
    for _ in range(2):
        ledger.spending.settle(run, "a" * 32, Spent(calls=1, images=1, input_tokens=7))
    told = ledger.spending.of(run)
    assert told is not None
    assert told.services == {"editor": Spent(calls=3, images=3, input_tokens=7)}
    assert (told.unanswered.images, told.usd) == (2, 0.75)


@pytest.mark.parametrize("cost", [300, 95_000])
async def test_a_call_waits_for_others_that_hold_its_room_before_the_run_stops(
    ledger: Ledger, cost: int
) -> None:
    most = Spent(calls=1, output_tokens=60_000)
    prices = {"perturber": Price(usd_per_million_output_tokens=10.0)}
    run, accounts = limited(ledger, Allotment(usd=1.0, prices=prices)), LedgerAccounts(ledger)
    first = await accounts.reserve(run, "perturber", most)
    second = asyncio.create_task(accounts.reserve(run, "perturber", most))
    await asyncio.wait([second], timeout=0.3)
    assert not second.done()
    told = ledger.spending.of(run)
    assert told is not None
    assert told.stopped is None
    await accounts.settle(run, first, Spent(calls=1, output_tokens=cost))
    if cost == 300:
        assert await second
        return
    with pytest.raises(BudgetSpent, match=r"\$0\.95 are spent or reserved, and the next"):
        await second


async def test_a_reservation_of_one_that_was_killed_is_not_waited_for_for_good(ledger: Ledger) -> None:
    run, accounts = limited(ledger, Allotment(images=1)), LedgerAccounts(ledger, patience_s=0.2)
    await accounts.reserve(run, "editor", ONE)
    for _ in range(2):
        with pytest.raises(BudgetSpent, match="1 were asked for or are reserved"):
            await accounts.reserve(run, "editor", ONE)
    told = ledger.spending.of(run)
    assert told is not None
    assert told.stopped is not None


@pytest.mark.parametrize("end", ["expires", "is taken over", "ends"])
async def test_a_reservation_whose_lease_has_ended_is_waited_for_no_longer(
    ledger: Ledger, clock: Clock, end: str
) -> None:
    run, accounts = limited(ledger, Allotment(images=1), 2), LedgerAccounts(ledger)
    first = lease(ledger, worker="killed:1", seconds=30.0)
    token = LEASE.set(Lease("killed:1", first.item_group))
    await accounts.reserve(run, "editor", ONE)
    LEASE.reset(token)
    lease(ledger, worker="other:1", seconds=60.0)
    second = asyncio.create_task(accounts.reserve(run, "editor", ONE))
    await asyncio.wait([second], timeout=0.5)
    assert not second.done()
    if end == "ends":
        failed = Failed(code="no-answer", detail="no answer")
        ledger.items.finish_many([Ended(item_id=i.id, fence=i.fence, outcome=failed) for i in first.items])
    else:
        clock.now += 31.0
    if end == "is taken over":
        assert lease(ledger, worker="killed:2", seconds=60.0).item_group == first.item_group
    with pytest.raises(BudgetSpent, match="1 were asked for or are reserved"):
        await asyncio.wait_for(second, 15.0)
    told = ledger.spending.of(run)
    assert told is not None
    # Nothing was taken from the account: what nobody answers counts at its most.
    assert told.total == told.unanswered == ONE


def test_a_sum_that_no_column_holds_ends_at_the_most_that_is_counted(ledger: Ledger) -> None:
    run = limited(ledger, Allotment(images=10))
    for call in ("a" * 32, "b" * 32):
        assert ledger.spending.reserve(run, call, "captioner", Spent(calls=1)) is None
        ledger.spending.settle(run, call, Spent(calls=1, input_tokens=MOST_COUNTED - 1))
    with ledger._session.writing() as connection:
        # What a ledger of before may hold.
        connection.execute(update(schema.spending).values(output_tokens=2**62 + 2**61))
    told = ledger.spending.of(run)
    assert told is not None
    assert told.total == Spent(calls=2, input_tokens=MOST_COUNTED, output_tokens=MOST_COUNTED)
    assert ledger.spending.reserve(run, "c" * 32, "editor", ONE) is None


def test_a_run_at_its_budget_ends_when_what_is_worked_on_is_recorded(ledger: Ledger) -> None:
    run = limited(ledger, Allotment(images=1))
    group = lease(ledger)
    assert ledger.spending.reserve(run, "a" * 32, "editor", Spent(calls=2, images=2)) is not None
    assert ledger.items.lease("another", seconds=30.0) is None
    assert ledger.runs.get(run).state == "in_progress"
    ledger.items.release(group)
    assert ledger.items.lease("another", seconds=30.0, run_id=run) is None
    ended = ledger.runs.get(run)
    assert (ended.state, ended.problem and ended.problem.code) == ("failed", "budget-spent")
    assert ended.request_counts.cancelled == 9
    with pytest.raises(BudgetSpent, match="stopped at its budget of 1 image; resume it with a larger one"):
        ledger.runs.resume(run, budget=LargerLimits(images=1))
    assert ledger.runs.resume(run, budget=LargerLimits(images=4)).state == "queued"
    assert ledger.spending.reserve(run, "a" * 32, "editor", Spent(calls=2, images=2)) is None
    assert lease(ledger).items


def test_a_run_without_a_budget_gets_none_when_it_is_resumed(ledger: Ledger) -> None:
    run = create_run(ledger)
    ledger.runs.cancel(run)
    with pytest.raises(InvalidRequest, match="has no budget of images that could be changed"):
        ledger.runs.resume(run, budget=LargerLimits(images=4))
    assert ledger.runs.get(run).state == "cancelled"


def test_a_budget_that_comes_while_a_run_is_resumed_counts(ledger: Ledger) -> None:
    run = limited(ledger, Allotment(images=20))
    with ledger._session.writing() as connection:
        connection.execute(update(schema.runs).values(state="resuming"))
    with pytest.raises(InvalidRequest, match="has no budget of usd"):
        ledger.runs.resume(run, budget=LargerLimits(usd=3.0))
    ledger.runs.resume(run, budget=LargerLimits(images=500))
    assert ledger.spending.reserve(run, "a" * 32, "editor", Spent(calls=21, images=21)) is None


def test_a_deleted_run_leaves_no_row_and_what_comes_late_changes_nothing(ledger: Ledger) -> None:
    run = limited(ledger, Allotment(images=10))
    for call in ("a" * 32, "b" * 32):
        ledger.spending.reserve(run, call, "editor", ONE)
    ledger.spending.settle(run, "a" * 32, ONE)
    finish_all(ledger)
    ledger.runs.delete(run)
    ledger.spending.settle(run, "b" * 32, ONE)
    assert rows_of(ledger) == 0
