"""The text filter against the grammar."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_miniature.world.grammar import caption
from evaluation.tests.fakes.validity import scene
from evaluation.validity.text_filter import Proposal, judged_filter

BEFORE = scene(companion="dog")


def proposal(attribute: str, value: str) -> Proposal:
    return Proposal("boat", "background", caption(BEFORE), caption(BEFORE.changed(attribute, value)))


@pytest.mark.parametrize(
    ("attribute", "value", "good"),
    [
        ("background", "sand", True),
        ("weather", "rain", True),
        ("colour", "blue", False),
        ("object_class", "bus", False),
    ],
)
def test_a_proposal_is_good_if_one_attribute_of_its_type_changes(
    attribute: str, value: str, good: bool
) -> None:
    assert proposal(attribute, value).is_good is good


def test_a_swapped_class_is_never_good() -> None:
    swapped = Proposal("boat", "subject", caption(BEFORE), caption(BEFORE.changed("object_class", "bus")))
    assert not swapped.is_good


def test_precision_is_over_passing_and_recall_over_good_proposals() -> None:
    good, bad = proposal("background", "sand"), proposal("colour", "blue")
    found = judged_filter(
        [good, good, good, bad, bad], [True, True, False, True, False], np.random.default_rng(0)
    )
    assert found.precision.estimate == pytest.approx(2 / 3)
    assert found.precision.n == 3
    assert found.recall.estimate == pytest.approx(2 / 3)
    assert found.recall.n == 3
