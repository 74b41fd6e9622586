"""What one caller may hold of a process, and what is told of it."""

from __future__ import annotations

import asyncio

import pytest

from counterpose_core.errors import RateLimited
from counterpose_gateway.http.bounds import FairSemaphore, Room, Shares, Use, exports_at_once
from counterpose_gateway.settings import GatewaySettings


@pytest.mark.fault("T21")
def test_a_tenant_holds_three_quarters_and_who_needs_no_key_all() -> None:
    listeners = Room(GatewaySettings(max_listeners=8)).listeners
    for _ in range(6):
        listeners.enter("acme")
    with pytest.raises(RateLimited, match="8 listeners at once, and of a tenant 6"):
        listeners.enter("acme")
    for _ in range(2):
        listeners.enter("globex")
    with pytest.raises(RateLimited):
        listeners.enter("third")
    assert listeners.use == Use("listeners", now=8, most=8, refusals=2)
    for tenant in ("acme",) * 6 + ("globex",) * 2:
        listeners.leave(tenant)
    for _ in range(8):
        listeners.enter()
    assert listeners.is_full


def test_who_holds_nothing_may_hold_any_amount_by_itself() -> None:
    shares = Shares("bytes", 10, 5, "ten bytes")
    with shares.held("large", 40), pytest.raises(RateLimited, match="ten bytes; retry in a moment"):
        shares.enter("small", 1)
    with shares.held("small", 5), pytest.raises(RateLimited):
        shares.enter("small", 1)
    assert shares.use == Use("bytes", now=0, most=10, refusals=2)


def test_each_bound_has_a_name_of_its_own() -> None:
    uses = Room(GatewaySettings()).uses
    assert len({use.name for use in uses}) == len(uses)
    assert all(0 == use.now < use.most and not use.refusals for use in uses)
    assert exports_at_once().use in uses


async def test_who_waits_gets_a_turn_after_each_other_waiter_and_a_left_place_is_no_ones() -> None:
    semaphore, order = FairSemaphore(1), list[str]()

    async def wait(caller: str, name: str) -> None:
        async with semaphore.held(caller):
            order.append(name)
            await asyncio.sleep(0)

    await semaphore.acquire("acme")
    waiting = [asyncio.create_task(wait("acme", f"acme {number}")) for number in range(4)]
    await asyncio.sleep(0)
    waiting += [asyncio.create_task(wait("globex", f"globex {number}")) for number in range(2)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    semaphore.release("acme")
    # It has just been given the turn, and leaves before it uses it.
    waiting[0].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == ["globex 0", "acme 2", "globex 1", "acme 3"]
    async with asyncio.timeout(100):
        await semaphore.acquire("third")


async def test_one_that_holds_its_share_waits_though_there_is_room() -> None:
    semaphore = FairSemaphore(4, 3)
    for _ in range(3):
        await semaphore.acquire("acme")
    more = asyncio.create_task(semaphore.acquire("acme"))
    await asyncio.sleep(0)
    assert not more.done()
    await semaphore.acquire("globex")
    semaphore.release("globex")
    await asyncio.sleep(0)
    assert not more.done()
    semaphore.release("acme")
    await more
    for _ in range(3):
        semaphore.release("acme")
    for _ in range(4):
        await semaphore.acquire()
