"""Shares of a full call: equal in work, and none waits for ever."""

from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpose_core.editing.driver.account import Account
from counterpose_core.editing.driver.evaluation import Answer, Carry, Evaluation, Walk
from counterpose_services.editor.step_engine.fair_shares import FairShares
from counterpose_services.editor.step_engine.walk_under_way import Terms, WalkUnderWay


def endless(rows: int, *, carried: bool = False) -> Walk[Tensor]:
    """Wait for the same rows for ever."""
    carry = Carry(None, (True,) * (rows - 1)) if carried else None
    while True:
        yield [
            Evaluation(
                timestep=1,
                latents=torch.zeros(rows, 1, 1, 1),
                text=torch.zeros(rows, 1, 1),
                owners=["owner"] * rows,
                carry=carry,
            )
        ]


def begun(share: object, rows: int, *, carried: bool = False, deadline: float = 1.0) -> WalkUnderWay:
    walk = WalkUnderWay(
        endless(rows, carried=carried), Account(), Terms(share=repr(share), deadline=deadline)
    )
    walk.begin()
    return walk


def worked(walks: list[WalkUnderWay], capacity: int, calls: int) -> Counter[WalkUnderWay]:
    """Answer so many calls, and return the rows of each walk."""
    shares, rows = FairShares(), Counter[WalkUnderWay]()
    kind = next(iter(walks[0].waiting))
    for _ in range(calls):
        taken = shares.pick(walks, kind, capacity)
        assert taken
        assert sum(each.piece.size for each in taken) <= max(capacity, 2)
        for each in taken:
            rows[each.walk] += each.piece.size
            repeated = each.piece.repeats
            each.walk.answer(each, Answer(torch.zeros(each.piece.size - repeated, 1, 1, 1)))
    return rows


sizes = st.tuples(st.integers(2, 9), st.booleans())


@settings(max_examples=40, deadline=None)
@given(crowd=st.lists(sizes, min_size=2, max_size=6), capacity=st.integers(1, 12))
def test_no_share_waits_for_ever_and_backlogged_shares_get_equal_parts(
    crowd: list[tuple[int, bool]], capacity: int
) -> None:
    walks = [begun(number, rows, carried=carried) for number, (rows, carried) in enumerate(crowd)]
    calls = 60 * len(walks)
    found = worked(walks, capacity, calls)
    assert all(found[walk] > 0 for walk in walks)
    # A share that has fewer rows waiting than its part cannot take it.
    wanting = [walk for (rows, _), walk in zip(crowd, walks, strict=True) if rows >= capacity]
    if len(wanting) > 1:
        taken = [found[walk] for walk in wanting]
        assert max(taken) - min(taken) <= 0.1 * max(taken) + 2 * capacity + 2 * 9


def test_a_run_with_many_walks_gets_no_more_than_a_run_with_one() -> None:
    many, one = [begun("many", 4) for _ in range(9)], begun("one", 8)
    found = worked([*many, one], capacity=8, calls=100)
    assert abs(sum(found[walk] for walk in many) - found[one]) <= 16


def test_of_one_share_the_earliest_deadline_goes_first() -> None:
    late, early = begun("run", 4, deadline=9.0), begun("run", 4, deadline=2.0)
    (first, *_) = FairShares().pick([late, early], next(iter(late.waiting)), 4)
    assert first.walk is early


def test_all_rows_go_when_they_fit() -> None:
    walks = [begun(number, 3) for number in range(4)]
    assert sum(each.piece.size for each in FairShares().pick(walks, next(iter(walks[0].waiting)), 12)) == 12
