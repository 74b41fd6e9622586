"""The text filters, the gate and the selection over the sweep."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from counterpose_core.contract.stress_test_thresholds import GateThresholds
from counterpose_core.stress_test.filters import (
    GATE_REASONS,
    LANCE_R_REASONS,
    Choice,
    GateReason,
    choose,
    gate,
    names_label,
    text_filter,
)


@dataclass(frozen=True)
class Scored:
    """Scores of an edit that passes LANCE's thresholds."""

    direction: float = 0.3
    image_image: float = 0.8
    text_original: float = 0.25
    text_edited: float = 0.25
    text_edited_source: float = 0.2
    words_added: float | None = 0.25
    words_removed: float | None = 0.2


class Lance(GateThresholds):
    """LANCE's released thresholds."""

    direction: float = 0.2
    image_image: float = 0.7
    image_text: float = 0.2
    closer: bool = True


def at(angle: float) -> np.ndarray:
    """A unit vector whose cosine with the label's is cos(angle)."""
    return np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])


LABEL = at(0)


def test_dissimilar_words_pass_the_text_filter() -> None:
    verdict = text_filter(label=LABEL, removed=[at(80)], added=[at(-80)], class_epsilon=0.5, word_epsilon=0.5)
    assert verdict.reason is None
    assert verdict.class_similarity == pytest.approx(np.cos(np.radians(80)))


@pytest.mark.paper("LANCE-S3.1-label-filter", "LANCE-D-new-words")
@pytest.mark.parametrize(("removed", "added"), [(30, 90), (90, 30)])
def test_words_near_the_class_are_caught_whether_removed_or_added(removed: float, added: float) -> None:
    verdict = text_filter(
        label=LABEL, removed=[at(removed)], added=[at(added)], class_epsilon=0.5, word_epsilon=0.9
    )
    assert verdict.reason == "label-in-edit"


@pytest.mark.paper("LANCE-D-two-places")
def test_one_part_of_a_two_place_edit_near_the_class_is_caught() -> None:
    verdict = text_filter(
        label=LABEL, removed=[at(90), at(90), at(10)], added=[at(-90)], class_epsilon=0.5, word_epsilon=0.9
    )
    assert verdict.reason == "label-in-edit"


@pytest.mark.paper("LANCE-S3.1-differ-filter")
def test_a_synonym_edit_is_caught() -> None:
    verdict = text_filter(label=LABEL, removed=[at(90)], added=[at(100)], class_epsilon=0.5, word_epsilon=0.9)
    assert verdict.reason == "edit-too-similar"
    assert verdict.word_similarity == pytest.approx(np.cos(np.radians(10)))


def test_an_insertion_is_not_compared_with_removed_words() -> None:
    verdict = text_filter(label=LABEL, removed=[], added=[at(90)], class_epsilon=0.5, word_epsilon=0.1)
    assert verdict.reason is None
    assert verdict.word_similarity is None


@pytest.mark.parametrize(
    ("removed", "added", "label", "expected"),
    [
        (["red"], ["blue"], "plate", False),
        (["plate"], ["bowl"], "plate", True),
        (["a Plate"], [], "plate", True),
        (["two plates"], ["a lamp"], "plate", True),
        ([], ["a plate"], "plate", True),
        ([], ["wooden sled"], "dog sled", False),
        ([], ["a dog sled"], "dog sled", True),
        (["dog"], ["cat"], "dog sled", True),
        (["template"], [], "plate", False),
    ],
)
def test_words_of_the_label_are_found_in_an_edit(
    removed: list[str], added: list[str], label: str, expected: bool
) -> None:
    assert names_label(removed, added, label) is expected


@pytest.mark.paper("LANCE-S3.2-closer")
@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({}, None),
        ({"direction": 0.2}, None),
        ({"direction": 0.19}, "gate-direction"),
        ({"direction": -0.9}, "gate-direction"),
        ({"image_image": 0.69}, "gate-image-image"),
        ({"text_original": 0.19}, "gate-image-text"),
        ({"text_edited": 0.19}, "gate-image-text"),
        ({"text_edited_source": 0.25}, "gate-closer"),
        ({"direction": 0.0, "image_image": 0.0}, "gate-direction"),
        ({"direction": float("nan")}, "gate-direction"),
    ],
)
def test_the_gate_names_the_first_criterion_that_fails(change: dict[str, float], failed: str | None) -> None:
    assert gate(replace(Scored(), **change), Lance()) == failed


@pytest.mark.paper("LANCE-S3.2-closer")
def test_closeness_is_not_judged_when_disabled() -> None:
    assert gate(Scored(text_edited_source=0.9), Lance(closer=False)) is None


def test_omitted_criteria_are_not_judged() -> None:
    only: tuple[GateReason, ...] = ("gate-image-image",)
    assert gate(Scored(direction=-1.0, text_edited=0.0), Lance(), only) is None


def sweep(*directions: float) -> list[tuple[float, Scored]]:
    return [(0.4 + 0.1 * step, Scored(direction=direction)) for step, direction in enumerate(directions)]


@pytest.mark.paper("LANCE-S3.2-sweep", "LANCE-D-best-reset")
def test_the_papers_rule_selects_the_best_passing_direction() -> None:
    assert choose(sweep(0.3, 0.5, 0.4), Lance(), "paper").index == 1


@pytest.mark.parametrize("rounding", [-1e-7, 0.0, 1e-7])
@pytest.mark.parametrize("least", [0.2, 0.9])
def test_directions_equal_within_rounding_select_the_first(rounding: float, least: float) -> None:
    tied = sweep(0.3, 0.5, 0.5 + rounding, 0.4)
    assert choose(tied, Lance(direction=least), "paper").index == 1
    assert choose(sweep(0.5, 0.501), Lance(direction=least), "paper").index == 1


def test_the_best_direction_is_skipped_if_another_criterion_fails() -> None:
    variants = sweep(0.3, 0.5, 0.4)
    variants[1] = (0.5, replace(variants[1][1], image_image=0.1))
    choice = choose(variants, Lance(), "paper")
    assert (choice.index, choice.failed) == (2, None)


@pytest.mark.paper("LANCE-C-selection")
def test_the_released_rule_selects_the_largest_passing_fraction_in_any_order() -> None:
    variants = sweep(0.3, 0.5, 0.4, 0.1)
    assert choose(variants, Lance(), "released").index == 2
    assert choose(variants[::-1], Lance(), "released").index == 1


def test_if_none_passes_the_variant_that_got_furthest_gives_the_reason() -> None:
    variants = [
        (0.4, Scored(direction=0.1)),
        (0.5, Scored(direction=0.3, image_image=0.1)),
        (0.6, Scored(direction=0.4, image_image=0.2)),
    ]
    choice = choose(variants, Lance(), "paper")
    assert (choice.index, choice.failed) == (2, "gate-image-image")
    assert choice.failed in GATE_REASONS


@pytest.mark.parametrize(
    ("added", "removed", "failed"),
    [
        (0.25, 0.2, None),
        (0.2, 0.2, "gate-new-word"),
        (None, 0.2, "gate-new-word"),
        (0.2, None, "gate-new-word"),
    ],
)
def test_the_random_baseline_requires_an_image_nearer_to_the_new_word(
    added: float | None, removed: float | None, failed: str | None
) -> None:
    # All that LANCE would drop it for is left unjudged.
    scores = Scored(
        direction=-1.0, image_image=0.0, text_edited=0.0, words_added=added, words_removed=removed
    )
    assert gate(scores, Lance(), LANCE_R_REASONS) == failed


def test_lance_ignores_the_criterion_of_the_baseline() -> None:
    assert gate(Scored(words_added=None), Lance()) is None


def test_the_baseline_applies_the_selection_rule_to_passing_values() -> None:
    nearer, farther = Scored(direction=0.1), Scored(direction=0.9, words_added=0.1)
    sweep = [(0.4, replace(nearer, direction=0.3)), (0.6, nearer), (0.8, farther)]
    assert choose(sweep, Lance(), "paper", LANCE_R_REASONS) == Choice(0, None)
    assert choose(sweep, Lance(), "released", LANCE_R_REASONS) == Choice(1, None)
    assert choose([(0.8, farther)], Lance(), "paper", LANCE_R_REASONS) == Choice(0, "gate-new-word")
