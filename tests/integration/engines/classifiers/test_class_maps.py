"""Classes of a dataset, a class map and a network's head are matched by name or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import (
    ClassMapMismatch,
    InvalidRequest,
    ModelFormatRefused,
)
from counterpose_core.text.imagenet_hierarchy import class_names
from counterpose_services.classifiers.class_map import HeadClasses, read_class_map, read_label_map
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.timm_folder import load_folder
from counterpose_services.classifiers.timm_network import TimmClassifier
from counterpose_services.classifiers.timm_zoo import imagenet_classes
from fakes.tiny_classifiers import SUITE, ask, predictions, put_image


@pytest.mark.parametrize("classes", [("boat", "zeppelin"), ("boat", "BOAT")])
def test_a_class_without_its_own_head_output_is_a_mismatch(
    classes: tuple[str, ...], engine: ClassifiersEngine, store: BlobStore
) -> None:
    with pytest.raises(ClassMapMismatch):
        ask(engine, "resnet", [put_image(store, 0)], classes)


def test_a_class_requested_twice_is_refused(engine: ClassifiersEngine, store: BlobStore) -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        ask(engine, "resnet", [put_image(store, 0)], ("boat", "boat"))


@pytest.mark.paper("LANCE-S4.1-label-map")
def test_a_label_map_sums_the_head_classes_it_names(root: Path, store: BlobStore, tmp_path: Path) -> None:
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({"vehicle": ["boat", "tram"]}), encoding="utf-8")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(label_map=file))
    image = put_image(store, 5)
    (whole,) = predictions(ask(engine, "resnet", [image]))
    (mapped,) = predictions(ask(engine, "resnet", [image], ("vehicle", "sled")))
    assert mapped.probabilities[0] == pytest.approx(sum(whole.probabilities[:2]))
    assert mapped.probabilities[1] == pytest.approx(whole.probabilities[2])


def test_the_label_map_of_a_run_precedes_that_of_the_services(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({"vehicle": ["boat"], "toy": ["sled"]}), encoding="utf-8")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(label_map=file))
    image = put_image(store, 5)
    (whole,) = predictions(ask(engine, "resnet", [image]))
    (mapped,) = predictions(
        ask(engine, "resnet", [image], ("vehicle", "toy"), label_map={"vehicle": ["boat", "tram"]})
    )
    assert mapped.probabilities == pytest.approx([sum(whole.probabilities[:2]), whole.probabilities[2]])


def test_a_label_map_for_another_classifier_leaves_the_class_s_own_name() -> None:
    head = HeadClasses((("boat",), ("tram",)))
    assert head.selection(["boat"], {"boat": ["speedboat", "canoe"]}).rows == ((0,),)
    # A part of it is a mistake of this one's map.
    with pytest.raises(ClassMapMismatch, match="'canoe'"):
        head.selection(["boat"], {"boat": ["tram", "canoe"]})


def test_imagenet_classes_match_by_synonym_and_wordnet_id() -> None:
    head = imagenet_classes()
    assert len(head) == 1000
    assert head.selection(["tench", "n01443537", "Great White Shark"], {}).rows == ((0,), (1,), (2,))
    with pytest.raises(ClassMapMismatch, match="crane"):
        head.selection(["crane"], {})


def test_all_classes_that_a_head_lacks_are_named_with_those_that_are_near() -> None:
    with pytest.raises(ClassMapMismatch) as refused:
        imagenet_classes().selection(["tench", "cat", "goldfsh", "zeppelin airship"], {})
    said = refused.value.detail
    assert "'cat' for 'cat' (did you mean 'tabby" in said
    assert "'goldfsh' for 'goldfsh' (did you mean 'goldfish'?)" in said
    assert "'zeppelin airship' for 'zeppelin airship'" in said
    with pytest.raises(ClassMapMismatch, match="and 15 more; name one of its classes in a label map"):
        imagenet_classes().selection([f"no class {number}" for number in range(20)], {})


@pytest.mark.paper("LANCE-S4.1-label-map")
def test_fifteen_classes_on_a_thousand_way_head_keep_their_own_mass() -> None:
    head = imagenet_classes()
    names = [head.own_names[row] for row in range(0, 990, 66)]
    odds = np.full(1000, 0.001, dtype=np.float32)
    assert len(names) == 15
    assert head.selection(names, {})(odds) == pytest.approx(np.full(15, 0.001))


def test_a_class_name_without_a_valid_prompt_is_a_mismatch(
    engine: ClassifiersEngine, store: BlobStore
) -> None:
    with pytest.raises(ClassMapMismatch, match="not make a usable prompt"):
        ask(engine, "zero-shot", [put_image(store, 0)], ("boat", "sled with dogs " * 20))


@pytest.mark.parametrize("text", ["{", "[1]", '{"boat": "tram"}', '{"boat": []}', '{"boat": [1]}', None])
def test_an_error_names_the_invalid_label_map(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "labels.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ClassMapMismatch, match=r"labels\.json"):
        read_label_map(file)


@pytest.mark.fault("B40")
@pytest.mark.parametrize(
    "text",
    [
        "{", '{"boat": 0}', '{"-1": "boat"}', '{"0": "boat", "7": "tram"}', "[]", '["boat", 1]', '"boat"',
        '["boat", null]', '["boat", "boat"]', '["Boat", "boat"]', '["ice_bear", "ice bear"]', '["boat", ""]',
    ],
)  # fmt: skip
def test_a_class_map_is_a_list_of_names(text: str, tmp_path: Path) -> None:
    file = tmp_path / "class_map.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ClassMapMismatch, match=r"class_map\.json"):
        read_class_map(file)


def test_a_duplicate_head_name_needs_a_label_map() -> None:
    head = HeadClasses((("crane",), ("crane",), ("boat",)))
    with pytest.raises(ClassMapMismatch, match="2 classes"):
        head.selection(["crane"], {})


def test_two_classes_cannot_share_a_head_row() -> None:
    head = HeadClasses((("boat",), ("tram",)))
    with pytest.raises(ClassMapMismatch, match="shares"):
        head.selection(["boat", "vessel"], {"vessel": ["boat"]})


def test_a_class_cannot_count_a_head_row_twice() -> None:
    head = HeadClasses((("boat",), ("tram",)))
    with pytest.raises(ClassMapMismatch, match="shares"):
        head.selection(["vessel"], {"vessel": ["boat", "Boat"]})


def test_a_head_that_differs_in_width_from_its_class_map_is_refused(root: Path, store: BlobStore) -> None:
    network = load_folder(root / "classifiers" / "resnet", "resnet")
    narrow = replace(network, head=HeadClasses((("boat",), ("tram",))))
    with pytest.raises(ModelFormatRefused, match="for 2 classes"):
        TimmClassifier(narrow, label_map={}, store=store, batch=2, device="cpu")


def test_a_head_knows_imagenet_s_classes_by_the_names_that_folders_of_ids_get(tmp_path: Path) -> None:
    names, head = class_names(), imagenet_classes()
    assert head.selection(list(names.values()), {}).rows == head.selection(list(names), {}).rows
    file = tmp_path / "class_map.json"
    file.write_text(json.dumps(["n03126707", "boat", "n02690373"]), encoding="utf-8")
    ids = read_class_map(file)
    assert ids.own_names == ["n03126707", "boat", "n02690373"]
    assert ids.selection(["airliner", "n03126707", "boat"], {}).rows == ((2,), (0,), (1,))
    file.write_text(json.dumps(["boat", "n02085620-Chihuahua", "n99999999-my_dog"]), encoding="utf-8")
    assert read_class_map(file).selection(["Chihuahua", "my dog"], {}).rows == ((1,), (2,))
