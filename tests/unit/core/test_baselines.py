"""What a baseline says of a classifier that is fed wrongly: how much better it does, and where to mend it."""

from __future__ import annotations

import pytest

from counterpose_core.contract.baselines import BetterPreparation, ClassifierBaseline
from counterpose_core.contract.preparations import PREPARATIONS
from counterpose_core.statistics.bootstrap import proportion


@pytest.mark.parametrize(
    ("spec", "preparation", "remedy"),
    [
        ("local:mine", "imagenet", "correct mean and deviation in its config.json"),
        ("hf:mine", "bytes", "correct mean and deviation in its preprocessor_config.json"),
        ("local:mine", "blue-first", "save it with a first layer that takes red before blue"),
        ("function:mine", "imagenet", "give it its own preprocessing (transform=)"),
        ("mine", "blue-first", "give it its own preprocessing (transform=)"),
    ],
)
def test_the_warning_names_where_the_preparation_is_mended(spec: str, preparation: str, remedy: str) -> None:
    better = BetterPreparation(name=PREPARATIONS[preparation], accuracy=proportion(40, 48))
    found = ClassifierBaseline(classifier=spec, accuracy=proportion(12, 64), of=64, tried=4, better=better)
    assert found.warning == (
        f"{spec} is probably fed wrongly: with {PREPARATIONS[preparation]} it is right on 40 of 48 of these "
        f"images; {remedy}."
    )


@pytest.mark.parametrize(
    ("tried", "told"),
    [
        (0, "no other normalisation or channel order was tried"),
        (1, "the one other channel order or normalisation that was tried does not do much better"),
        (2, "none of 2 other normalisations and channel orders does much better"),
    ],
)
def test_a_baseline_that_is_often_wrong_tells_what_else_was_tried(tried: int, told: str) -> None:
    found = ClassifierBaseline(classifier="mine", accuracy=proportion(7, 48), of=48, tried=tried, better=None)
    assert told in str(found)
