"""Folders named after classes and shifts."""

from __future__ import annotations

import re
from pathlib import PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpose_gateway.exports.inventory import LONGEST, folders

ALIKE = ('dog;";>', "dog['\"+")
"""Spellings of one word whose SHA-256 begin with the same eight digits, found by trying."""

SAFE = re.compile(r"[a-z0-9][a-z0-9_~-]*")


def test_a_plain_name_is_its_own_folder() -> None:
    assert folders(["plate", "in the snow", "t-shirt 2"]) == {
        "plate": "plate",
        "in the snow": "in_the_snow",
        "t-shirt 2": "t-shirt_2",
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("great dane", "Great Dane"),
        ("in the snow", "in_the_snow"),
        ("a/b", "a\\b"),
        ("caf\u00e9", "cafe\u0301"),
        ("cafe", "caf\u00e9"),
        ("dog", "dog "),
        ("\u96ea", "\u6c34"),
        ("dog", "dog."),
        ("x" * 70 + "1", "x" * 70 + "2"),
    ],
)
def test_names_that_sanitise_alike_get_different_folders(one: str, other: str) -> None:
    found = folders([one, other])
    assert len({folder.casefold() for folder in found.values()}) == 2
    assert all(SAFE.fullmatch(folder) for folder in found.values())


@pytest.mark.fault("T14", "T16")
@pytest.mark.parametrize(
    "name", ["..", ".", "/etc/passwd", "../../x", "~", "-rf", "a\0b", "C:\\x", "\n", "__x", ".git"]
)
def test_no_name_escapes_the_tree_or_makes_a_hidden_folder(name: str) -> None:
    (folder,) = folders([name]).values()
    assert SAFE.fullmatch(folder)


@pytest.mark.parametrize("name", ["con", "nul", "com1", "lpt9", "aux"])
def test_windows_device_names_are_not_used_as_folders(name: str) -> None:
    (folder,) = folders([name]).values()
    assert not PureWindowsPath(folder).is_reserved()


@pytest.mark.parametrize(
    "name", ["train", "test", "in the train station", "val 2", "dev-7", "Test", "2test", "eval_x"]
)
def test_no_folder_name_contains_a_split_keyword(name: str) -> None:
    (folder,) = folders([name]).values()
    words = re.split(r"[-._ 0-9]", folder)
    assert not {"train", "test", "val", "dev", "eval"} & set(words)


def test_colliding_digest_prefixes_are_lengthened() -> None:
    one, other = ALIKE
    found = folders([one, other])
    assert found[other].startswith(found[one])
    assert found[one] != found[other]


def test_a_folder_does_not_depend_on_the_preceding_names() -> None:
    assert folders(["Dog", "dog"])["Dog"] == folders(["dog", "DOG", "Dog"])["Dog"]


@settings(max_examples=50)
@given(st.lists(st.text(min_size=1, max_size=LONGEST + 5), unique=True, max_size=5))
def test_any_names_get_safe_unique_folders_of_bounded_length(names: list[str]) -> None:
    found = folders(names)
    assert len({folder.casefold() for folder in found.values()}) == len(names)
    assert all(SAFE.fullmatch(folder) and len(folder) <= LONGEST + 65 for folder in found.values())
