"""The screen: mean losses by source image, ranking without repetition, and how many changes are tested."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterpose_core.stress_test.screening import (
    LEAST_LOSS,
    Candidate,
    Change,
    choose_hypotheses,
    least_pairs,
    most_hypotheses,
    rank_candidates,
    with_pairs,
)
from evaluation.reference.plain_figures import mean_losses


def candidate(
    removed: str = "food", added: str = "", *, loss: float = 0.5, n: int = 3, classifier: str = "resnet",
    object_class: str = "plate", pairs: float = math.inf, edits: str = "",
) -> Candidate:  # fmt: skip
    """A change of objects that costs a classifier so much; each letter of ``edits`` is one of its edits."""
    change = Change(object_class, "object", removed, added)
    return Candidate(classifier, change, loss, n, pairs, frozenset(edits))


def test_a_mean_loss_gives_every_source_image_the_same_weight() -> None:
    loss, n = mean_losses(["a", "a", "a", "b"], [0.9, 0.9, 0.9, 0.1])
    assert loss == pytest.approx(0.5)
    assert n == 2


def test_an_edit_without_a_control_does_not_count() -> None:
    assert mean_losses(["a", "b"], [0.4, np.nan]) == (0.4, 1)
    assert mean_losses(["a"], [np.nan]) == (0.0, 0)
    assert mean_losses([], []) == (0.0, 0)


def test_a_loss_on_few_images_is_shrunk() -> None:
    assert candidate(loss=0.6, n=1).score == pytest.approx(0.3)
    assert candidate(loss=0.6, n=5).score == pytest.approx(0.5)


def test_a_loss_too_small_for_a_finding_is_no_candidate() -> None:
    kept = rank_candidates([candidate(loss=LEAST_LOSS, n=9), candidate("dog", loss=LEAST_LOSS - 0.001, n=90)])
    assert [each.change.removed for each in kept] == ["food"]


def test_of_changes_that_share_words_only_the_best_is_tested() -> None:
    best = candidate(loss=0.6, n=4)
    worse = [candidate(added="fruit", loss=0.6, n=1), candidate("of food", loss=0.5, n=2)]
    assert rank_candidates([*worse, best]) == [best]


def test_common_words_without_meaning_do_not_make_changes_alike() -> None:
    both = [candidate("on the grass"), candidate("on the road")]
    assert len(rank_candidates(both)) == 2


def test_changes_of_several_classes_classifiers_and_sides_stand_alone() -> None:
    apart = [
        candidate(),
        candidate(object_class="kite"),
        candidate(classifier="vit"),
        candidate("", "food"),
    ]
    assert set(rank_candidates(apart)) == set(apart)


def test_a_second_classifier_is_tested_on_the_change_of_the_first() -> None:
    first, nested = candidate(loss=0.8, n=4), candidate(added="fruit", classifier="vit", loss=0.7, n=2)
    under_the_same = candidate(classifier="vit", loss=0.4, n=4)
    assert rank_candidates([first, nested, under_the_same]) == [first, under_the_same]
    # Without a loss of its own under that change it keeps the change that hurts it.
    assert rank_candidates([first, nested]) == [first, nested]


def test_a_borrowed_change_is_not_listed_twice() -> None:
    first = candidate("red food", "fruit", loss=0.9, n=9)
    mine = [
        candidate("red", classifier="vit", loss=0.8, n=4),
        candidate("", "fruit", classifier="vit", loss=0.7, n=4),
        candidate("red food", "fruit", classifier="vit", loss=0.6, n=4),
    ]
    chosen = [each for each in rank_candidates([first, *mine]) if each.classifier == "vit"]
    assert chosen == [mine[2]]


def test_the_order_does_not_depend_on_the_order_of_the_groups() -> None:
    tied = [candidate(object_class=name) for name in ("sled", "boat", "kite")]
    assert rank_candidates(tied) == rank_candidates(tied[::-1])


@pytest.mark.parametrize(("items", "expected"), [(0, 4), (71, 4), (168, 9), (216, 12), (10_000, 12)])
def test_the_number_of_hypotheses_follows_the_budget(items: int, expected: int) -> None:
    assert most_hypotheses(items) == expected


@pytest.mark.parametrize(("hypotheses", "pairs"), [(1, 5), (4, 7), (8, 8), (12, 8), (13, 9)])
def test_fewer_pairs_than_the_least_could_prove_nothing(hypotheses: int, pairs: int) -> None:
    assert least_pairs(hypotheses) == pairs
    assert 0.5**pairs <= 0.05 / hypotheses < 0.5 ** (pairs - 1)


def test_as_many_changes_are_tested_as_fresh_images_can_serve() -> None:
    many = [candidate(f"word{number}", pairs=4.9) for number in range(9)]
    # Seven pairs, of which seven tenths must be in sight, can prove one of at most six.
    assert choose_hypotheses(many, 12) == many[:6]
    assert choose_hypotheses(many, 2) == many[:2]


def test_a_change_that_too_few_images_have_leaves_its_place_to_the_next() -> None:
    rare, common = candidate("bee", loss=0.9, pairs=3.4), candidate("dog", pairs=3.5)
    assert choose_hypotheses([rare, common], 12) == [common]
    assert choose_hypotheses([rare], 12) == []
    assert choose_hypotheses([], 12) == []


def test_pairs_are_expected_by_applicable_images_and_yield() -> None:
    assert with_pairs(candidate(), 10, 0.5).pairs == 5.0


def test_a_change_that_a_better_one_explains_is_not_tested() -> None:
    dog = candidate("dog", loss=0.6, n=5, edits="abcde")
    person, ball = (
        candidate("", "person", loss=0.4, edits="abx"),
        candidate("", "ball", loss=0.4, edits="cyz"),
    )
    assert rank_candidates([person, ball, dog]) == [dog, ball]
    elsewhere = candidate("", "person", loss=0.4, edits="ab", classifier="vit")
    assert rank_candidates([elsewhere, dog]) == [dog, elsewhere]
