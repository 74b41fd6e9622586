"""Fifty seeds of the simulation keep the invariants, meet every fault, and can be played again."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from simulation.faults import POINTS
from simulation.simulating import Simulated, simulate

SEEDS = 50


@cache
def simulated() -> list[Simulated]:
    return [simulate(seed) for seed in range(SEEDS)]


@pytest.mark.fault("F3", "F6", "F7", "F19", "F20", "F21", "F22", "F24", "F25", "F30", "F32")
def test_no_seed_violates_an_invariant() -> None:
    assert {each.seed: each.violation for each in simulated() if each.violation is not None} == {}


def test_nearly_every_fault_occurs_in_so_few_seeds() -> None:
    happened = sum((Counter(each.happened) for each in simulated()), Counter())
    # The rarest occur in one seed of twenty, so a change of the code may leave one of them out.
    assert len(set(POINTS) - set(happened)) <= 2


def test_a_seed_is_played_again_as_it_was() -> None:
    for before in simulated()[:3]:
        assert simulate(before.seed) == before


def test_seeds_differ() -> None:
    assert len({each.digest for each in simulated()}) == SEEDS
