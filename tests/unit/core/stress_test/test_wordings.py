"""Wordings of one change: whether they part, which hurt by themselves, and what a finding may say of them."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.stress_test.confirmation import PairColumns
from counterpose_core.stress_test.screening import WordingKey, wording_key
from counterpose_core.stress_test.wordings import WordingTest, named, parted_p, scope_of, wording_test

PERSON, NOTHING = wording_key("ball", "person"), wording_key("ball", "")


def generator() -> np.random.Generator:
    return np.random.default_rng(1)


def fresh(losses: list[float]) -> PairColumns:
    return PairColumns.fresh(losses)


def redrawn(sources: list[str], losses: list[float]) -> PairColumns:
    placebos = np.full(len(losses), 0.95)
    return PairColumns.of(sources, placebos, placebos - np.asarray(losses), redrawn=True)


def test_wordings_that_cost_everything_and_nothing_part() -> None:
    pairs = fresh([0.9] * 17 + [0.0] * 5)
    assert parted_p(pairs, [PERSON] * 17 + [NOTHING] * 5, generator()) <= 0.001


def test_wordings_are_exchanged_within_an_image_where_it_gives_several_pairs() -> None:
    # Two images lose and show one wording, two do not and show the other: the images part, not the words.
    sources = [name for name in "abcd" for _ in range(5)]
    losses = [0.9] * 10 + [0.0] * 10
    assert parted_p(redrawn(sources, losses), [PERSON] * 10 + [NOTHING] * 10, generator()) == 1.0
    mixed = [PERSON, NOTHING, PERSON, NOTHING, PERSON] * 4
    lost = [0.9 if wording == PERSON else 0.0 for wording in mixed]
    assert parted_p(redrawn(sources, lost), mixed, generator()) <= 0.001


@pytest.mark.parametrize("redraws", [False, True])
def test_equal_wordings_are_parted_in_five_of_a_hundred_runs(redraws: bool) -> None:
    parted = 0
    for seed in range(200):
        chance = np.random.default_rng([7, seed])
        losses = list(np.where(chance.random(20) < 0.6, 0.8, 0.0) + chance.normal(0, 0.02, 20))
        wordings = [PERSON if chance.random() < 0.5 else NOTHING for _ in losses]
        pairs = redrawn([name for name in "abcd" for _ in range(5)], losses) if redraws else fresh(losses)
        parted += parted_p(pairs, wordings, np.random.default_rng([8, seed])) <= 0.05
    assert parted <= 18  # 0.09 of 200: the 99.5 % point of 5 % is 18.


def test_eight_pairs_are_the_fewest_that_judge_a_wording() -> None:
    assert wording_test(fresh([0.8] * 8), generator()).breaks
    few = wording_test(fresh([0.8] * 7), generator())
    assert not few.is_tested
    assert not few.breaks
    assert not wording_test(fresh([0.02] * 20), generator()).breaks


def results(**losses: tuple[int, float]) -> dict[WordingKey, WordingTest]:
    every = {"person": PERSON, "nothing": NOTHING}
    return {every[name]: wording_test(fresh([loss] * n), generator()) for name, (n, loss) in losses.items()}


def test_a_finding_of_wordings_that_part_names_those_that_hurt() -> None:
    seen = results(person=(17, 0.9), nothing=(9, 0.0))
    assert named(seen, parted=0.001) == [PERSON]
    assert named(seen, parted=0.2) == [PERSON, NOTHING]
    assert named(results(person=(5, 0.9), nothing=(4, 0.0)), parted=0.01) == [PERSON, NOTHING]


def test_one_odd_image_does_not_make_its_wording_the_one_that_hurts() -> None:
    # Six redraws of one image lose all, six each of two others nothing.
    losses = [0.9] * 6 + [0.0] * 12
    assert not wording_test(redrawn([*"aaaaaa", *"bbbbbb", *"cccccc"], losses), generator()).breaks


def test_three_wordings_are_corrected_for_two_that_may_be_idle() -> None:
    weak = WordingTest(n=9, loss=0.4, p=0.04)
    strong = WordingTest(n=9, loss=0.8, p=0.001)
    idle = WordingTest(n=9, loss=0.0, p=0.9)
    dog = wording_key("ball", "dog")
    assert named({PERSON: weak, NOTHING: idle}, parted=0.01) == [PERSON]
    assert named({PERSON: weak, NOTHING: idle, dog: strong}, parted=0.01) == [dog]


@pytest.mark.parametrize(
    ("hurting", "scope"),
    [
        ({PERSON: True, NOTHING: True}, "plain"),
        ({NOTHING: True}, "plain"),
        ({PERSON: True, NOTHING: False}, "mixed"),
        ({PERSON: True}, "replaced"),
        ({PERSON: False}, "replaced"),
    ],
)
def test_gone_is_said_only_if_a_removal_without_replacement_hurts(
    hurting: dict[WordingKey, bool], scope: str
) -> None:
    assert scope_of(hurting) == scope
