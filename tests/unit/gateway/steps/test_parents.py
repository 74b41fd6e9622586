"""Parents of classes: given ones, and WordNet's where all classes are ImageNet-1k's."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.bug_hunt.failures import failures
from counterpose_core.contract.failure_criteria import NoRelative, TopOne
from counterpose_gateway.steps.parents import failure_parents, notes_on_parents, prompt_parents

CLASSES = ["fly", "bee", "lady's slipper", "sports car", "crane"]
IMAGENET = ["fly", "bee", "ladybug", "leaf beetle", "crane"]


FAMILY = NoRelative()
INSECTS = {"fly": "insect", "bee": "insect"}


@pytest.mark.paper("BUGS-S3-problematic")
def test_wordnet_s_parents_are_taken_where_all_classes_are_imagenet_s() -> None:
    found = failure_parents(FAMILY, {}, IMAGENET)
    assert found == {
        "fly": "dipterous insect",
        "bee": "hymenopterous insect",
        "ladybug": "beetle",
        "leaf beetle": "beetle",
    }
    assert failure_parents(FAMILY, {}, CLASSES) == {}
    assert prompt_parents(["fly", "crane"], {}, IMAGENET) == {"fly": "dipterous insect"}


@pytest.mark.paper("BUGS-S3-problematic")
def test_a_beetle_that_is_called_another_beetle_is_no_failure() -> None:
    answers = np.array([[0.1, 0.1, 0.2, 0.5, 0.1], [0.5, 0.2, 0.01, 0.04, 0.25]])
    parents = [failure_parents(NoRelative(levels=levels), {}, IMAGENET) for levels in (1, 2)]
    flags = [failures(FAMILY, answers, "ladybug", IMAGENET, each) for each in parents]
    # Two levels up, beetles, flies and bees are insects.
    assert [each.tolist() for each in flags] == [[False, True], [False, False]]


def test_given_parents_come_first_and_other_label_sets_bring_their_own() -> None:
    assert failure_parents(FAMILY, INSECTS, IMAGENET)["fly"] == "insect"
    assert prompt_parents(["fly"], INSECTS, IMAGENET)["fly"] == "insect"
    assert failure_parents(FAMILY, INSECTS, CLASSES) == INSECTS


@pytest.mark.paper("BUGS-X-ambiguous")
def test_a_label_without_a_parent_is_named_where_the_criterion_asks_for_one() -> None:
    labels = ["fly", "crane"]
    (note,) = notes_on_parents(FAMILY, labels, failure_parents(FAMILY, {}, IMAGENET))
    assert note.startswith("no parent is known of crane:")
    assert notes_on_parents(FAMILY, labels, {"fly": "insect", "crane": "bird"}) == []
    assert notes_on_parents(TopOne(), labels, {}) == []
    assert failure_parents(TopOne(), {}, IMAGENET) == {}
