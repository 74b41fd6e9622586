"""Parents of classes: given ones, and WordNet's where all classes are ImageNet-1k's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from faultline_core.bug_hunt.failures import failures
from faultline_core.contract.bug_hunts import BugHuntCreate
from faultline_core.contract.failure_criteria import NoRelative
from faultline_gateway.methods.bug_hunt.parents import failure_parents, notes_on_parents, prompt_parents

CLASSES = ["fly", "bee", "lady's slipper", "sports car", "crane"]
IMAGENET = ["fly", "bee", "ladybug", "leaf beetle", "crane"]


def asked(levels: int = 1, **more: Any) -> BugHuntCreate:
    settings: dict[str, Any] = {"classifiers": ["m"], "labels": ["fly", "crane"], "seed": 0} | more
    return BugHuntCreate(criterion=NoRelative(levels=levels), **settings)


@pytest.mark.paper("BUGS-S3-problematic")
def test_wordnet_s_parents_are_taken_where_all_classes_are_imagenet_s() -> None:
    found = failure_parents(asked(), IMAGENET)
    assert found == {
        "fly": "dipterous insect",
        "bee": "hymenopterous insect",
        "ladybug": "beetle",
        "leaf beetle": "beetle",
    }
    assert failure_parents(asked(), CLASSES) == {}
    assert prompt_parents(asked(levels=2), IMAGENET) == {"fly": "dipterous insect"}


@pytest.mark.paper("BUGS-S3-problematic")
def test_a_beetle_that_is_called_another_beetle_is_no_failure() -> None:
    answers = np.array([[0.1, 0.1, 0.2, 0.5, 0.1], [0.5, 0.2, 0.01, 0.04, 0.25]])
    parents = [failure_parents(asked(levels), IMAGENET) for levels in (1, 2)]
    flags = [failures(NoRelative(), answers, "ladybug", IMAGENET, each) for each in parents]
    # Two levels up, beetles, flies and bees are insects.
    assert [each.tolist() for each in flags] == [[False, True], [False, False]]


def test_given_parents_come_first_and_other_label_sets_bring_their_own() -> None:
    given = asked(parents={"fly": "insect", "bee": "insect"})
    assert failure_parents(given, IMAGENET)["fly"] == "insect"
    assert prompt_parents(given, IMAGENET)["fly"] == "insect"
    assert failure_parents(given, CLASSES) == {"fly": "insect", "bee": "insect"}


def test_a_label_without_a_parent_is_named_where_the_criterion_asks_for_one() -> None:
    (note,) = notes_on_parents(asked(), failure_parents(asked(), IMAGENET))
    assert note.startswith("no parent is known of crane:")
    assert notes_on_parents(asked(), {"fly": "insect", "crane": "bird"}) == []
    top = BugHuntCreate(classifiers=["m"], labels=["crane"], seed=0)
    assert notes_on_parents(top, {}) == []
    assert failure_parents(top, IMAGENET) == {}
