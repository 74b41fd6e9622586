"""The pace of work on many rows: chunks shrink where they lock too long, and others get as much time."""

from __future__ import annotations

import pytest

from counterpose_gateway.records.pace import CHUNK, LEAST_CHUNK, LOCKED_SECONDS, Pace, in_chunks


def test_a_chunk_that_locks_too_long_is_followed_by_smaller_ones() -> None:
    pace = Pace()
    pace.note(2 * LOCKED_SECONDS)
    assert pace.size == CHUNK // 2
    pace.note(1000 * LOCKED_SECONDS)
    assert pace.size == LEAST_CHUNK
    sizes = [_noted(pace, 1e-9) for _ in range(8)]
    assert sizes == [20, 40, 80, 160, CHUNK, CHUNK, CHUNK, CHUNK]


def _noted(pace: Pace, seconds: float) -> int:
    pace.note(seconds)
    return pace.size


def test_others_have_the_ledger_for_as_long_as_a_chunk_locked_it() -> None:
    pace, slept = Pace(), list[float]()
    pace.let_others_in(slept.append)
    assert slept == []
    # So long that a pause of this machine between the two calls is nothing beside it.
    pace.note(5000.0)
    pace.let_others_in(slept.append)
    assert slept == [pytest.approx(5000.0, abs=100.0)]


def test_a_slow_commit_gives_others_longer_but_makes_no_chunk_smaller() -> None:
    pace, slept = Pace(), list[float]()
    pace.note(LOCKED_SECONDS / 2, 5000.0)
    pace.let_others_in(slept.append)
    assert pace.size == CHUNK
    assert slept == [pytest.approx(5000.0, abs=100.0)]


def test_a_step_is_repeated_until_it_finds_fewer_rows_than_it_may_change() -> None:
    left, sizes = 7, list[int]()

    def step(size: int) -> tuple[int, float]:
        nonlocal left
        sizes.append(size)
        some = min(size, left)
        left -= some
        return some, 0.0

    assert in_chunks(step, 3) == 7
    assert (left, sizes) == (0, [3, 3, 3])
