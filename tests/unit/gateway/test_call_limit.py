"""How many calls a process makes to one service at once, and how many groups a worker takes."""

from __future__ import annotations

import asyncio

import pytest

from counterpose_core.contract.services import ServiceState
from counterpose_gateway.services.calls import CallLimit
from counterpose_gateway.worker import concurrency as concurrency_module
from counterpose_gateway.worker.concurrency import LEAST, MOST, Concurrency
from fakes.service_http import Time

DEADLINE = 100.0


@pytest.fixture
def clock() -> Time:
    return Time()


def limit_of(clock: Time, calls: int | None) -> CallLimit:
    limit = CallLimit(clock)
    limit.tell(calls)
    return limit


def took(limit: CallLimit, clock: Time, seconds: float) -> int | None:
    """Let a call of ``seconds`` begin and end after all before it; return the limit afterwards."""
    clock.now += seconds + 1
    limit.took(seconds, DEADLINE)
    return limit.calls


class Calls:
    """Calls that hold their places until they are told to go."""

    def __init__(self, limit: CallLimit) -> None:
        self._limit = limit
        self.running: list[int] = []
        self.most = 0
        self.go = asyncio.Event()

    async def call(self, number: int) -> None:
        async with self._limit.place():
            self.running.append(number)
            self.most = max(self.most, len(self.running))
            await self.go.wait()
            self.running.remove(number)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_calls_run_than_the_service_asks_for(clock: Time) -> None:
    calls = Calls(limit_of(clock, 2))
    tasks = [asyncio.create_task(calls.call(number)) for number in range(7)]
    await settle()
    assert calls.running == [0, 1]
    calls.go.set()
    await asyncio.gather(*tasks)
    assert calls.most == 2


async def test_every_call_runs_while_the_service_asks_for_no_number(clock: Time) -> None:
    calls = Calls(limit_of(clock, None))
    tasks = [asyncio.create_task(calls.call(number)) for number in range(7)]
    await settle()
    assert len(calls.running) == 7
    calls.go.set()
    await asyncio.gather(*tasks)


async def test_a_call_that_is_cancelled_while_it_waits_takes_no_place(clock: Time) -> None:
    limit = limit_of(clock, 1)
    calls = Calls(limit)
    first, second, third = (asyncio.create_task(calls.call(number)) for number in range(3))
    await settle()
    second.cancel()
    calls.go.set()
    await asyncio.wait_for(asyncio.gather(first, third), 100)
    async with asyncio.timeout(100), limit.place():
        pass


async def test_a_call_that_is_cancelled_as_its_turn_comes_passes_it_on(clock: Time) -> None:
    limit = limit_of(clock, 1)
    calls = Calls(limit)
    first, second, third = (asyncio.create_task(calls.call(number)) for number in range(3))
    await settle()
    first.cancel()
    # The first gives its place to the second, which is cancelled before it wakes.
    await asyncio.sleep(0)
    second.cancel()
    calls.go.set()
    await asyncio.wait_for(third, 100)


async def test_waiting_calls_run_when_the_service_asks_for_more(clock: Time) -> None:
    limit = limit_of(clock, 1)
    calls = Calls(limit)
    tasks = [asyncio.create_task(calls.call(number)) for number in range(4)]
    await settle()
    limit.tell(3)
    await settle()
    assert calls.running == [0, 1, 2]
    calls.go.set()
    await asyncio.gather(*tasks)


def test_a_call_near_its_deadline_halves_the_number_and_fast_ones_raise_it_again(clock: Time) -> None:
    limit = limit_of(clock, 8)
    assert took(limit, clock, 60) == 4
    assert took(limit, clock, 100) == 2
    assert took(limit, clock, 30) == 2
    assert [took(limit, clock, 5) for _ in range(8)] == [3, 4, 5, 6, 7, 8, 8, 8]


def test_a_service_always_has_one_call(clock: Time) -> None:
    limit = limit_of(clock, 2)
    assert [took(limit, clock, 90) for _ in range(3)] == [1, 1, 1]


def test_calls_that_began_before_a_change_say_nothing(clock: Time) -> None:
    limit = limit_of(clock, 16)
    clock.now = 90
    # Sixteen calls that waited for each other end together: one is evidence, the others are the same.
    for _ in range(16):
        limit.took(80, DEADLINE)
    assert limit.calls == 8


class Services:
    """Five services with the numbers of replicas that a test sets; None does not answer."""

    def __init__(self, *replicas: int | None) -> None:
        self.replicas = replicas
        self.asked = asyncio.Event()

    async def services(self) -> list[ServiceState]:
        self.asked.set()
        return [
            ServiceState(service=str(number), ready=each is not None, replicas=each)
            for number, each in enumerate(self.replicas)
        ]


@pytest.mark.parametrize(
    ("replicas", "groups"),
    [((1, 1, 1, 1, 1), 10), ((1, 1, 8, 1, 2), 26), ((100, 100, 100, 1, 1), MOST), ((1,), LEAST)],
)
async def test_a_worker_takes_two_groups_for_each_replica(replicas: tuple[int, ...], groups: int) -> None:
    concurrency = Concurrency(health=Services(*replicas))
    assert concurrency.groups == LEAST
    await concurrency.ask()
    assert concurrency.groups == groups


@pytest.mark.parametrize(("workers", "groups"), [(2, 12), (5, 5), (64, 1)])
async def test_workers_that_share_the_services_share_the_groups(workers: int, groups: int) -> None:
    concurrency = Concurrency(None, Services(1, 1, 8, 1, 1), workers)
    await concurrency.ask()
    assert concurrency.groups == groups


async def test_a_service_that_does_not_answer_changes_nothing() -> None:
    services = Services(1, 1, 8, 1, 1)
    concurrency = Concurrency(health=services)
    await concurrency.ask()
    services.replicas = (1, 1, None, 1, 1)
    await concurrency.ask()
    assert concurrency.groups == 24


async def test_nobody_is_asked_before_there_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service without replicas would start one for the answer."""
    monkeypatch.setattr(concurrency_module, "IDLE_SECONDS", 0.0)
    services, stop, working = Services(1, 1, 8, 1, 1), asyncio.Event(), asyncio.Event()
    concurrency = Concurrency(health=services)
    following = asyncio.create_task(concurrency.follow(stop, working.is_set))
    await asyncio.sleep(0.05)
    assert not services.asked.is_set()
    working.set()
    await asyncio.wait_for(services.asked.wait(), 100)
    stop.set()
    await asyncio.wait_for(following, 100)
    assert concurrency.groups == 24


async def test_a_number_that_the_user_sets_is_kept() -> None:
    concurrency = Concurrency(7, Services(1, 1, 8, 1, 1))
    await concurrency.ask()
    assert concurrency.groups == 7
