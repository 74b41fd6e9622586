"""Leases and pauses last as long as they say, whatever is done to the clock, and on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from counterpose_core.errors import IdempotencyInFlight
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database.session import NOTED_SECONDS, Steady, steady_clock
from counterpose_gateway.ledger.idempotency import CLAIM_SECONDS
from counterpose_gateway.records.outcomes import Failed
from fakes.ledgers import Clock, create_run, lease

HOUR = 3600.0
LEASE_SECONDS = 60.0

Open = Callable[..., Ledger]


class Machine:
    """A machine with a clock that can be set, and one that cannot."""

    def __init__(self, name: str = "one", *, wall: float = 1_000_000.0, running: float = 500.0) -> None:
        self.name = name
        self.wall = Clock(wall)
        self.running = Clock(running)

    def pass_time(self, seconds: float) -> None:
        """Let both clocks go on."""
        self.wall.now += seconds
        self.running.now += seconds

    def restart(self, *, wall: float) -> Machine:
        """The machine after a start, with its clock at ``wall``."""
        return Machine(f"{self.name} again", wall=wall, running=3.0)


@pytest.fixture
def open_on(url: str) -> Iterator[Open]:
    """Opens the one database as a process of a machine does."""
    with ExitStack() as opened:

        def process(machine: Machine) -> Ledger:
            ledger = Ledger(url, clock=machine.wall, steady=Steady(machine.name, machine.running))
            opened.callback(ledger.close)
            return ledger

        yield process


def leased(ledger: Ledger) -> bool:
    return ledger.items.lease("another", seconds=LEASE_SECONDS) is not None


@pytest.mark.fault("F25")
@pytest.mark.parametrize("jump", [-HOUR, -5.0])
def test_the_items_of_a_dead_worker_return_after_their_lease_though_the_clock_is_set_back(
    jump: float, open_on: Open
) -> None:
    machine = Machine()
    ledger = open_on(machine)
    create_run(ledger, sources=2)
    assert leased(ledger)
    assert leased(ledger)
    machine.wall.now += jump
    later = open_on(machine)
    for process in (ledger, later):
        assert not leased(process)
    machine.pass_time(LEASE_SECONDS - 1)
    for process in (ledger, later):
        assert not leased(process)
    machine.pass_time(2)
    assert leased(ledger)
    assert leased(later)


@pytest.mark.fault("F25")
def test_a_living_worker_keeps_its_items_though_the_clock_is_set_forward(open_on: Open) -> None:
    machine = Machine()
    ledger = open_on(machine)
    run_id = create_run(ledger, sources=1)
    group = lease(ledger, seconds=LEASE_SECONDS)
    machine.wall.now += HOUR
    other = open_on(machine)
    for _ in range(5):
        assert not leased(other)
        machine.pass_time(LEASE_SECONDS / 3)
        assert ledger.items.renew(group, LEASE_SECONDS) == [item.id for item in group.items]
    assert {item.attempts for item in ledger.items.all(run_id)} == {1}


@pytest.mark.fault("F25")
def test_a_pause_before_another_attempt_lasts_seconds_though_the_clock_is_set_back(open_on: Open) -> None:
    machine = Machine()
    ledger = open_on(machine)
    create_run(ledger, sources=1, per_source=1)
    (item,) = lease(ledger, seconds=LEASE_SECONDS).items
    ledger.items.finish(item.id, item.fence, Failed(code="backend-unavailable", detail="no", retryable=True))
    machine.wall.now -= HOUR
    assert not leased(ledger)
    machine.pass_time(5)
    assert leased(ledger)


@pytest.mark.fault("F25")
def test_a_machine_started_with_its_clock_set_back_leases_the_items_soon(open_on: Open) -> None:
    machine = Machine()
    ledger = open_on(machine)
    create_run(ledger, sources=1)
    group = lease(ledger, seconds=LEASE_SECONDS)
    for _ in range(60):
        machine.pass_time(LEASE_SECONDS / 3)
        ledger.items.renew(group, LEASE_SECONDS)
    started = machine.restart(wall=machine.wall.now - HOUR)
    ledger = open_on(started)
    assert not leased(ledger)
    started.pass_time(LEASE_SECONDS + NOTED_SECONDS)
    assert leased(ledger)


def test_the_processes_of_a_machine_read_one_lease_time(open_on: Open) -> None:
    machine = Machine()
    first = open_on(machine)
    machine.pass_time(100)
    machine.wall.now += HOUR
    second = open_on(machine)
    machine.pass_time(10)
    assert first._session.lease_time() == second._session.lease_time() == 1_000_110.0


@pytest.mark.fault("F25")
def test_machines_follow_the_one_that_is_ahead(open_on: Open) -> None:
    slow, fast = Machine("slow"), Machine("fast", wall=1_000_000.0 + HOUR, running=9.0)
    behind, ahead = open_on(slow), open_on(fast)
    create_run(behind, sources=1)
    assert ahead._session.lease_time() - behind._session.lease_time() == HOUR
    for machine in (slow, fast):
        machine.pass_time(NOTED_SECONDS)
    group = lease(behind, seconds=LEASE_SECONDS)
    assert behind._session.lease_time() == pytest.approx(ahead._session.lease_time(), abs=NOTED_SECONDS)
    assert behind.items.renew(group, LEASE_SECONDS)
    assert not leased(ahead)


@pytest.mark.fault("F25")
def test_a_run_never_ends_before_it_began(open_on: Open) -> None:
    machine = Machine()
    ledger = open_on(machine)
    run_id = create_run(ledger, sources=1, per_source=1)
    (item,) = lease(ledger, seconds=LEASE_SECONDS).items
    machine.wall.now -= HOUR
    ledger.items.finish(item.id, item.fence, Failed(code="internal-error", detail="no"))
    run = ledger.runs.get(run_id)
    assert run.created_at is not None
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.created_at <= run.started_at <= run.ended_at


@pytest.mark.fault("F25")
def test_a_key_of_a_call_that_died_is_free_again_though_the_clock_is_set_back(open_on: Open) -> None:
    machine = Machine()
    ledger = open_on(machine)
    ledger.idempotency.claim("scope", "key", "print")
    machine.wall.now -= HOUR
    with pytest.raises(IdempotencyInFlight):
        ledger.idempotency.claim("scope", "key", "print")
    machine.pass_time(CLAIM_SECONDS + 1)
    assert ledger.idempotency.claim("scope", "key", "print") is None


def test_the_clock_of_this_machine_has_a_name_and_goes_on() -> None:
    first, second = steady_clock(), steady_clock()
    assert first.name == second.name
    assert first.read() <= second.read()
