"""The pauses between attempts: doubling, bounded, drawn from the given generator."""

from __future__ import annotations

import random

import pytest

from counterpose_core.backoff import Backoff

BACKOFF = Backoff(first_s=0.25, longest_s=8.0)


@pytest.mark.parametrize(
    ("attempt", "whole"), [(1, 0.25), (2, 0.5), (3, 1.0), (6, 8.0), (50, 8.0), (10_000, 8.0)]
)
def test_pauses_double_up_to_a_limit_with_jitter_of_up_to_half(attempt: int, whole: float) -> None:
    jitter = random.Random(0)
    pauses = [BACKOFF.pause(attempt, jitter) for _ in range(200)]
    assert whole / 2 <= min(pauses) < 0.55 * whole
    assert 0.95 * whole < max(pauses) <= whole


def test_equal_generators_give_equal_pauses() -> None:
    first, second = ([BACKOFF.pause(n, random.Random(7)) for n in range(1, 5)] for _ in range(2))
    assert first == second


def test_the_global_generator_is_not_used() -> None:
    before = random.getstate()
    BACKOFF.pause(3, random.Random())
    assert random.getstate() == before
