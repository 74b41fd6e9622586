"""The table of operations: complete, in words, and read without NumPy."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from counterpose_core.errors import InvalidRequest
from counterpose_core.transforms.application import EFFECTS
from counterpose_core.transforms.table import FAMILIES, LEVELS, OPERATIONS, Operation, operation

IMAGENET_C = {
    "gaussian-noise", "shot-noise", "impulse-noise", "defocus-blur", "glass-blur", "motion-blur", "zoom-blur",
    "snow", "frost", "fog", "brightness", "contrast", "elastic-transform", "pixelate", "jpeg-compression",
    "speckle-noise", "gaussian-blur", "spatter", "saturate",
}  # fmt: skip
ONE_LEVEL = {"greyscale", "upside-down", "flip-horizontal", "flip-vertical"}
PROGRAM = """
import sys
from counterpose_core.transforms.table import OPERATIONS
assert OPERATIONS
print(*sorted({name.partition('.')[0] for name in sys.modules} & {'numpy', 'scipy', 'PIL', 'torch'}))
"""


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=list(OPERATIONS))
def test_an_operation_has_all_its_texts(row: Operation) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", row.name)
    assert row.title[0].isupper()
    assert not row.title.endswith(".")
    for line in (row.changes, row.keeps):
        assert line[0].isupper()
        assert line.endswith(".")
    assert not row.may_change.endswith(".")


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=list(OPERATIONS))
def test_every_level_has_words_of_its_own_and_numbers(row: Operation) -> None:
    assert row.levels == (1 if row.name in ONE_LEVEL else LEVELS)
    assert all(len(values) == row.levels for values in row.numbers.values())
    words = {row.in_words(level) for level in range(1, row.levels + 1)}
    assert len(words) == row.levels
    assert all(sentence[0].islower() and "{" not in sentence for sentence in words)
    assert 1 <= row.label_levels <= LEVELS


def test_a_finding_can_say_how_an_image_looks() -> None:
    assert f"once the image {operation('darker').in_words(3)}" == "once the image is as dark as level 3"
    assert operation("rotation").in_words(2) == "is turned by 10 degrees"
    assert operation("occlusion").in_words(5) == "is hidden for 50% by a patch"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("gaussian-blur", "Gaussian blur (scaled)"),
        ("contrast", "Contrast"),
        ("jitter", "Jitter"),
    ],
)
def test_a_corruption_with_lengths_says_that_they_are_not_the_published_ones(name: str, title: str) -> None:
    row = operation(name)
    assert row.called(scaled=True) == title
    assert row.called(scaled=False) == row.title
    assert row.in_words(2, scaled=True).endswith(" (scaled)") == title.endswith(" (scaled)")


def test_every_operation_is_carried_out_and_nothing_else() -> None:
    assert EFFECTS.keys() == OPERATIONS.keys()
    assert {row.family for row in OPERATIONS.values()} == set(FAMILIES)
    assert {name for name, row in OPERATIONS.items() if row.family == "corruption"} == IMAGENET_C


def test_what_may_change_a_label_says_which() -> None:
    for name in ("rotation", "upside-down", "flip-horizontal", "flip-vertical"):
        assert "letters" in operation(name).may_change
    assert "colour" in operation("greyscale").may_change
    assert operation("gaussian-blur").may_change == ""


def test_an_unknown_operation_is_refused_with_the_likeliest() -> None:
    message = (
        r"no operation is named 'gausian-blur' \(did you mean 'gaussian-blur'\?\); choose of gaussian-noise,"
    )
    with pytest.raises(InvalidRequest, match=message):
        operation("gausian-blur")


@pytest.mark.parametrize("level", [0, 6, -1, 2.5, True])
def test_a_level_out_of_range_is_refused_by_name(level: int) -> None:
    with pytest.raises(InvalidRequest, match=f"'fog' has no level {level}; it has levels 1 to 5"):
        operation("fog").at(level)


def test_a_flip_has_one_level() -> None:
    assert operation("flip-vertical").at(1) == {}
    with pytest.raises(InvalidRequest, match="'flip-vertical' has no level 2; it has level 1 only"):
        operation("flip-vertical").at(2)


def test_numbers_that_are_the_same_at_each_level_come_with_those_of_the_level() -> None:
    assert operation("border").at(2) == {"share": 0.04, "grey": 0}


def test_the_table_is_read_without_the_libraries_that_images_need() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.split() == []
