"""Which pairs of phrases fit the mistakes that a screen saw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterpose_core.stress_test.conjunctions import (
    ITEMS_EACH,
    AnsweredImages,
    Condition,
    Conjunction,
    chosen_conjunctions,
    conjunctions_in,
)

RAIN, SAND, DOG = (
    Condition("background", "in the rain"),
    Condition("background", "on the sand"),
    Condition("object", "a dog"),
)


def answered(*images: tuple[int, bool, Sequence[Condition]]) -> AnsweredImages:
    sources, wrong, conditions = zip(*images, strict=True)
    return AnsweredImages(np.array(sources), np.array(wrong), [frozenset(each) for each in conditions])


APART = [
    (1, False, [RAIN]),
    (2, False, [SAND]),
    (3, False, [DOG]),
    (4, False, [RAIN, DOG]),
    (5, False, [SAND]),
]


def test_two_phrases_that_fail_together_alone_are_a_conjunction() -> None:
    [candidate] = conjunctions_in("vit", "fly", answered(*APART, (6, True, [SAND, RAIN])))
    assert candidate.conjunction == Conjunction("fly", RAIN, SAND)
    assert (candidate.score > 0, candidate.alone) == (True, 4)


def test_a_phrase_that_fails_alone_needs_no_other() -> None:
    # With a dog or without one, images in the rain fail.
    images = answered((1, True, [RAIN]), (2, True, [RAIN, DOG]), (3, False, [DOG]), (4, False, [SAND]))
    assert conjunctions_in("vit", "fly", images) == []


def test_one_odd_image_of_three_does_not_say_that_a_phrase_hurts_by_itself() -> None:
    alone = [(7, False, [RAIN]), (8, False, [RAIN]), (9, False, [SAND])]
    both = (6, True, [SAND, RAIN])
    assert len(conjunctions_in("vit", "fly", answered(*alone, (10, True, [RAIN]), both))) == 1
    assert conjunctions_in("vit", "fly", answered(*alone[1:], (10, True, [RAIN]), both)) == []


def test_phrases_that_mostly_go_well_together_are_none() -> None:
    met = [(6, True, [SAND, RAIN]), (7, False, [SAND, RAIN])]
    assert conjunctions_in("vit", "fly", answered(*APART, *met)) == []


def test_a_phrase_that_was_never_seen_alone_may_be_what_hurts() -> None:
    images = answered((1, False, [RAIN]), (2, True, [SAND, RAIN]), (3, False, [DOG]))
    assert conjunctions_in("vit", "fly", images) == []


def test_many_edits_of_one_odd_source_count_as_one() -> None:
    odd = (6, True, [SAND, RAIN])
    [many] = conjunctions_in("vit", "fly", answered(*APART, *[odd] * 9))
    assert [many] == conjunctions_in("vit", "fly", answered(*APART, odd))


def test_the_edits_of_a_wrong_image_tell_which_of_its_phrases_it_takes() -> None:
    # It stays wrong without the dog; other images on the sand are right, as are those beside a dog.
    more = [(number, False, [place]) for number in range(10, 18) for place in (SAND, DOG)]
    images = answered(*APART, *more, (6, True, [SAND, RAIN, DOG]), (6, True, [SAND, RAIN]))
    best, other = conjunctions_in("vit", "fly", images)
    assert (best.conjunction.first, best.conjunction.second) == (RAIN, SAND)
    assert (other.conjunction.first, other.conjunction.second) == (SAND, DOG)
    assert other.score < best.score


def test_more_sources_make_a_better_candidate_and_the_budget_bounds_their_number() -> None:
    # Enough images of the shared phrase without the other show that it is harmless by itself.
    more = [(number, False, [SAND]) for number in range(10, 16)]
    met = [(6, True, [SAND, RAIN]), (7, True, [SAND, RAIN]), (8, True, [SAND, DOG])]
    images = answered(*APART, *more, *met)
    first, second = conjunctions_in("vit", "fly", images)
    assert (first.conjunction.second, second.conjunction.second) == (SAND, DOG)
    assert first.score > second.score
    assert list(chosen_conjunctions([second, first], budget=2 * ITEMS_EACH - 1)) == [first.conjunction]
    assert chosen_conjunctions([second, first], budget=ITEMS_EACH - 1) == {}


def test_classifiers_with_one_conjunction_share_its_images() -> None:
    images = answered(*APART, (6, True, [SAND, RAIN]))
    both = [*conjunctions_in("vit", "fly", images), *conjunctions_in("resnet", "fly", images)]
    assert list(chosen_conjunctions(both, budget=ITEMS_EACH).values()) == [("resnet", "vit")]
