"""The set of the rendered world: its proportions, its masks and its true results."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from evaluation.pie_bench.data import TYPES
from evaluation.pie_bench.world import MISSING, Made, _instruction, made, numbers


def test_700_pairs_have_the_proportions_of_the_types_that_the_world_has() -> None:
    wanted = numbers(700)
    assert sum(wanted.values()) == 700
    assert wanted.keys() | MISSING.keys() == TYPES.keys()
    whole = sum(kind.pairs for name, kind in TYPES.items() if name not in MISSING)
    for name, number in wanted.items():
        assert abs(number - 700 * TYPES[name].pairs / whole) < 1


@pytest.fixture(scope="module")
def pairs() -> list[Made]:
    """A few pairs of each type."""
    return list(made(dict.fromkeys(numbers(700), 3), Counter()))


def test_each_type_changes_what_it_says(pairs: list[Made]) -> None:
    for pair in pairs:
        edit = pair.edit
        assert {
            "0": True,
            "1": edit.attribute in ("object_class", "companion") and "none" not in (edit.old, edit.new),
            "2": (edit.attribute, edit.old) == ("companion", "none"),
            "3": (edit.attribute, edit.new) == ("companion", "none"),
            "4": edit.attribute == "kind",
            "6": edit.attribute == "colour",
            "8": edit.attribute == "background",
            "9": edit.attribute == "style",
        }[pair.type_id], (pair.type_id, edit)


def test_the_true_result_differs_inside_the_mask_alone(pairs: list[Made]) -> None:
    for pair in pairs:
        away = np.abs(pair.source.astype(int) - pair.target).max(axis=-1)
        assert away[pair.mask].max() > 6
        assert away[~pair.mask].max(initial=0) <= 2


def test_weather_and_style_are_of_all_of_an_image() -> None:
    pairs = [
        pair for pair in made({"0": 20, "9": 10}, Counter()) if pair.edit.attribute in ("weather", "style")
    ]
    assert {pair.edit.attribute for pair in pairs} == {"weather", "style"}
    assert all(pair.mask.all() for pair in pairs)


def test_scenes_that_are_left_out_are_counted() -> None:
    skipped = Counter[str]()
    list(made({"2": 3}, skipped))
    assert skipped["the scene has nothing to change in this way"] > 0


def test_an_instruction_says_what_is_added_removed_or_changed(pairs: list[Made]) -> None:
    told = {pair.type_id: _instruction(pair.edit) for pair in pairs}
    assert told["2"].startswith("Add a ")
    assert told["3"].startswith("Remove a ")
    assert told["8"].startswith("Change ")
    assert " to " in told["8"]
