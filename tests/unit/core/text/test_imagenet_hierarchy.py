"""ImageNet-1k's hierarchy: parents by name, levels, names of several classes, and what the file is."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from counterpose_core.text.imagenet_hierarchy import (
    CLASSES,
    FILE,
    are_imagenet,
    hierarchy,
    imagenet_parents,
)

DIGEST = "0a105f65a293ca1d86eecb1b7aeb3bbdc78ba73be409fa4917bf99dd8ebfe479"
"""Of WordNet 3.0 of Debian's `wordnet-base` 1:3.0-37 and the class list of timm 1.0.31."""


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        ("fly", "dipterous insect"),
        ("n02190166", "dipterous insect"),
        ("PERSIAN CAT", "domestic cat"),
        # Another class has this name, too, but as its fifth.
        ("crayfish", "decapod crustacean"),
        ("tench, Tinca tinca", "cyprinid"),
    ],
)
def test_a_class_has_the_parent_that_wordnet_gives_it(name: str, parent: str) -> None:
    assert imagenet_parents([name]) == {name: parent}


def test_two_levels_up_flies_and_bees_are_insects() -> None:
    assert imagenet_parents(["fly", "bee"], levels=2) == {"fly": "insect", "bee": "insect"}
    assert imagenet_parents(["fly"], levels=100) == {"fly": "entity"}


@pytest.mark.parametrize("name", ["crane", "zebra crossing", "plush toy"])
def test_names_of_no_class_or_of_two_have_no_parent(name: str) -> None:
    assert imagenet_parents([name, "fly"]) == {"fly": "dipterous insect"}
    assert are_imagenet([name]) == (name == "crane")


def test_parents_of_one_name_are_told_apart_but_not_in_prompts() -> None:
    cars = imagenet_parents(["sports car", "freight car"])
    assert len(set(cars.values())) == 2
    assert set(imagenet_parents(["sports car", "freight car"], distinct=False).values()) == {"car"}
    names = list(hierarchy().names.values())
    assert len(set(names)) == len(names)


def test_classes_are_imagenet_s_if_all_are() -> None:
    assert are_imagenet(["fly", "crane", "n02190166"])
    assert not are_imagenet(["fly", "gizmo"])


def test_every_class_has_a_parent_and_nothing_is_its_own_ancestor() -> None:
    found = hierarchy()
    classes = list(found.names)[:CLASSES]
    assert sum(each in found.parents for each in classes) == CLASSES
    for each in found.names:
        seen = {each}
        above = found.parents.get(each)
        while above is not None:
            assert above not in seen
            seen.add(above)
            above = found.parents.get(above)
        assert found.first[max(seen, key=lambda own: own not in found.parents)] == "entity"


def test_the_file_is_small_carries_its_licence_and_is_the_one_that_was_derived() -> None:
    data = FILE.read_bytes()
    assert len(data) < 40_000
    assert hashlib.sha256(data).hexdigest() == DIGEST
    text = gzip.decompress(data).decode("ascii")
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in text
    assert sum(not line.startswith("#") for line in text.splitlines()) == 1808
