"""The simulation of large runs: known queues, bounds that follow from one resource, and conservation."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import simpy

from evaluation.scale.model import Affine, Events, Plant, Rates, Resource, Transaction, simulate

FREE = Affine(0.0, 0.0)
NOTHING = Transaction(worker=FREE, database=FREE, statements=Affine(1.0, 0.0))
RATES = Rates(items=8, lease=NOTHING, record=NOTHING, calls=4, slow_calls=2, call=0.0, service=0.0)
PLANT = Plant(workers=2, hands=8, replicas=4, slow_seconds=0.5)
ROW = replace(RATES, record=replace(NOTHING, database=Affine(0.03, 0.01)))
"""A record holds the run's row for 40 ms alone, and for 10 ms more for each group with it."""


def test_a_queue_of_random_arrivals_and_equal_services_waits_as_long_as_theory_says() -> None:
    environment, generator, busy, waits = simpy.Environment(), np.random.default_rng(3), 0.7, list[float]()
    resource = Resource(environment, 1)

    def customer() -> Events:
        came = environment.now
        yield from resource.hold(1.0)
        waits.append(environment.now - came - 1.0)

    def arrivals() -> Events:
        while len(waits) < 40_000:
            yield environment.timeout(generator.exponential(1.0 / busy))
            environment.process(customer())

    environment.run(environment.process(arrivals()))
    # Pollaczek and Khinchine, M/D/1: the mean wait in services.
    assert np.mean(waits) == pytest.approx(busy / (2 * (1 - busy)), rel=0.08)
    assert resource.share(environment.now) == pytest.approx(busy, rel=0.03)


def test_replicas_that_bind_give_their_own_rate() -> None:
    found = simulate(RATES, PLANT, groups=400)
    assert found.items_per_second == pytest.approx(4 / (2 * 0.5) * 8, rel=0.02)
    assert found.binds == "replicas"
    assert found.busy["replicas"] == pytest.approx(1.0, abs=0.02)


def test_every_group_that_ends_brings_its_items() -> None:
    found = simulate(RATES, PLANT, groups=300)
    assert found.groups == 300
    assert found.items == 300 * RATES.items


def test_more_replicas_never_finish_less_and_stop_to_help_where_something_else_binds() -> None:
    plants = [replace(PLANT, hands=2 * number, replicas=2 * number) for number in (1, 2, 4, 8, 64)]
    rates = [simulate(ROW, plant, groups=400).items_per_second for plant in plants]
    assert all(later >= 0.99 * earlier for earlier, later in pairwise(rates))
    found = simulate(replace(ROW, record=replace(NOTHING, database=Affine(0.1, 0.1))), plants[-1], groups=400)
    assert found.binds == "row"


def test_hands_that_ask_for_themselves_are_as_fast_as_the_row_allows() -> None:
    plant = replace(PLANT, combined=False, hands=64, slow_seconds=0.0)
    found = simulate(ROW, plant, groups=400)
    assert found.items_per_second == pytest.approx(8 / 0.04, rel=0.02)
    assert found.binds == "row"
    together = simulate(ROW, replace(plant, combined=True), groups=400)
    # Sixteen groups in a transaction share what is fixed.
    assert together.items_per_second == pytest.approx(8 * 16 / (0.03 + 16 * 0.01), rel=0.05)


def test_workers_of_one_machine_share_its_cores() -> None:
    computing = replace(RATES, call=0.01)
    alone, shared = (
        simulate(
            computing, replace(PLANT, workers=4, replicas=64, slow_seconds=0.0, cores=cores), groups=2_000
        )
        for cores in (None, 2)
    )
    # A little less: a hand that waits for its interpreter holds the row meanwhile.
    assert alone.items_per_second == pytest.approx(4 * 8 / 0.04, rel=0.05)
    assert shared.items_per_second == pytest.approx(2 * 8 / 0.04, rel=0.02)


def test_what_other_programs_use_of_the_cores_is_missing() -> None:
    computing = replace(RATES, calls=20, call=0.002)
    plant = replace(PLANT, workers=4, replicas=64, slow_seconds=0.0, cores=2, beside=0.8)
    found = simulate(computing, plant, groups=60 * 32)
    assert found.items_per_second == pytest.approx(1.2 * 8 / 0.04, rel=0.06)


def test_an_interpreter_that_is_held_longer_than_it_computes_binds_alone_but_not_the_shared_cores() -> None:
    computing = replace(RATES, call=0.01, interpreter=1.5)
    plant = replace(PLANT, workers=1, replicas=64, slow_seconds=0.0, cores=2)
    one, four = (simulate(computing, replace(plant, workers=number), groups=60 * 32) for number in (1, 4))
    assert one.items_per_second == pytest.approx(8 / 0.06, rel=0.02)
    assert four.items_per_second == pytest.approx(2 * 8 / 0.04, rel=0.05)


def test_a_round_trip_is_waited_for_at_each_statement_under_the_lock() -> None:
    talkative = replace(RATES, record=replace(NOTHING, statements=Affine(9.0, 0.0)))
    plant = replace(PLANT, combined=False, hands=64, slow_seconds=0.0, round_trip=0.002, commit=0.01)
    found = simulate(talkative, plant, groups=10 * 128)
    # The lease has one statement, and both commit; what is around the lock, others wait for as well.
    assert found.items_per_second == pytest.approx(8 / (10 * 0.002 + 2 * 0.01), rel=0.03)
