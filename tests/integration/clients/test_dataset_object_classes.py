"""The classes of a dataset object keep the order in which its labels count them."""

from __future__ import annotations

import json
from typing import Any

import datasets
import numpy
import pytest
import torch
from PIL import Image

from counterpose import InvalidRequest
from counterpose._datasets.objects import dataset_object
from fakes.sdk import Session, ok

NAMES = ["tram", "bus", "airship"]
"""Not in the order of the alphabet."""
CREATED = {
    "name": "mine", "classes": NAMES, "n_sources": 0, "digest": "d", "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip


def photo() -> Image.Image:
    return Image.fromarray(numpy.full((8, 8, 3), 90, numpy.uint8))


class Numbered(torch.utils.data.Dataset[tuple[Image.Image, int]]):
    """A dataset as torchvision's are, whose row k is of class k."""

    def __init__(self, classes: Any, **attributes: Any) -> None:
        self.classes = classes
        vars(self).update(attributes)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, at: int) -> tuple[Image.Image, int]:
        return photo(), range(3)[at]


def hugging_face() -> Any:
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    rows = {"image": [photo()] * 3, "label": [0, 1, 2]}
    return datasets.Dataset.from_dict(rows, features=features)


def created_with(source: Any, **options: Any) -> Any:
    """The classes that an upload makes its dataset with."""
    session = Session("sync", ok(CREATED), ok({"added": 3, "rejected": []}))
    session(lambda client: client.datasets.upload(source, name="mine", **options))
    return json.loads(session.seen[0].content).get("classes")


def refusal(source: Any, classes: Any = None) -> str:
    """Why a dataset object is refused, before a dataset is made."""
    session = Session("sync")
    with pytest.raises(InvalidRequest) as refused:
        session(lambda client: client.datasets.upload(source, name="mine", classes=classes))
    assert session.seen == []
    return refused.value.detail


def test_a_dataset_is_made_with_the_classes_in_the_order_of_their_numbers() -> None:
    assert created_with(Numbered(NAMES)) == NAMES
    assert created_with(hugging_face()) == NAMES
    assert created_with(([photo()] * 3, [2, 1, 0]), classes=NAMES) == NAMES


def test_a_class_without_an_image_keeps_its_number() -> None:
    assert created_with(Numbered(["car", *NAMES, "boat"])) == ["car", *NAMES, "boat"]


def test_classes_of_other_names_keep_their_order() -> None:
    assert created_with(Numbered(NAMES), names={"bus": "coach"}) == ["tram", "coach", "airship"]
    assert created_with(Numbered(["tram", "n02690373", "bus"])) == ["tram", "airliner", "bus"]
    assert created_with(Numbered(NAMES), names={"tram": "vehicle", "bus": "vehicle"}) == [
        "vehicle",
        "airship",
    ]


def test_labels_that_are_names_make_the_classes_themselves() -> None:
    assert created_with(([photo()] * 3, NAMES)) is None


def test_a_subset_and_joined_datasets_have_the_classes_of_what_they_hold() -> None:
    subset = torch.utils.data.Subset(Numbered(NAMES), [2, 0])
    assert created_with(subset) == NAMES
    assert [row.label for row in dataset_object(subset, None)] == ["airship", "tram"]
    split, _ = torch.utils.data.random_split(Numbered(NAMES), [2, 1])
    assert created_with(torch.utils.data.ConcatDataset([split, Numbered(NAMES)])) == NAMES


def test_joined_datasets_that_number_other_classes_are_refused() -> None:
    joined: Any = torch.utils.data.ConcatDataset([Numbered(NAMES), Numbered(sorted(NAMES))])
    assert "different classes: pass classes=[...]" in refusal(joined)


def test_another_wrapper_does_not_lend_its_classes() -> None:
    class Relabelled:
        dataset = Numbered(NAMES)

        def __len__(self) -> int:
            return 1

        def __getitem__(self, at: int) -> Any:
            return photo(), 0

    assert "no class has a name: pass classes=[...]" in refusal(Relabelled())


def test_numbers_that_the_object_itself_denies_are_refused() -> None:
    numbers = {"tram": 2, "bus": 1, "airship": 0}
    assert "class_to_idx numbers 'tram' as 2" in refusal(Numbered(NAMES, class_to_idx=numbers))
    assert created_with(Numbered(NAMES, class_to_idx={"tram": 0, "bus": 1, "airship": 2})) == NAMES


@pytest.mark.parametrize(
    "classes", [{0: "tram", 2: "airship", 1: "bus"}, {"airship": 2, "bus": 1, "tram": 0}, tuple(NAMES),
                numpy.array(NAMES), dict.fromkeys(NAMES).keys()],
)  # fmt: skip
def test_classes_may_be_any_list_or_be_numbered(classes: Any) -> None:
    if isinstance(classes, type({}.keys())):
        assert "a dict_keys" in refusal(Numbered(classes))
    else:
        assert created_with(Numbered(classes)) == NAMES
        assert created_with(Numbered(None), classes=classes) == NAMES


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ([("tench", "Tinca tinca"), ("goldfish",), ("shark",)], "tuples, such as ('tench', 'Tinca tinca')"),
        ([0, 1, 2], "ints, such as 0"),
        ([None, "bus", "tram"], "NoneTypes"),
        ({"tram", "bus", "airship"}, "a set, not a list"),
        ("abc", "a str, not a list"),
        ({1: "tram", 2: "bus", 3: "airship"}, "not from 0 on"),
        ({0: 1}, "not from 0 on"),
        (["crane", "crane", "bus"], "two classes are called 'crane'"),
    ],
)
def test_classes_without_one_name_for_each_number_are_refused_before_a_dataset_is_made(
    classes: Any, said: str
) -> None:
    detail = refusal(Numbered(classes))
    assert said in detail
    assert "pass classes=[...], the name of each class in the order of the numbers" in detail
    assert created_with(Numbered(classes), classes=NAMES) == NAMES


@pytest.mark.parametrize("label", [("bus", 1), [0, 1], {"id": 1}, 1.0, b"bus", torch.tensor([0, 1, 0])])
def test_a_label_that_is_neither_a_name_nor_a_number_is_refused(label: Any) -> None:
    assert "expected a class's name or number" in refusal([(photo(), label)], NAMES)


def test_a_row_of_three_values_says_so() -> None:
    assert "expected (image, label), not 3 values" in refusal([(photo(), 1, "sunny")], NAMES)
