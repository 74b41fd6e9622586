"""Heads that are none of one class of several are refused by name; each row of others can be named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import timm
import torch
from safetensors.torch import save_file
from timm.data import ImageNetInfo
from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import DescribeRequest
from counterpose_core.errors import ClassMapMismatch, ModelFormatRefused
from counterpose_core.text.imagenet_hierarchy import class_names
from counterpose_services.classifiers.class_map import HeadClasses
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.transformers_network import head_classes
from fakes.tiny_classifiers import CLASSES, SUITE, ask, predictions, put_image

ALLOWING = SUITE.model_copy(update={"allow_hf": True})


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "store"))


def engine(root: Path, store: BlobStore) -> ClassifiersEngine:
    options = ClassifierOptions(models_folder=root / "models")
    return ClassifiersEngine.load(ALLOWING, root / "root", store, options)


def save_resnet(folder: Path, labels: tuple[str, ...], **changes: Any) -> None:
    """Save a tiny network of transformers with its processor."""
    config = ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic",
        id2label=dict(enumerate(labels)),
        **changes,
    )  # fmt: skip
    torch.manual_seed(0)
    ResNetForImageClassification(config).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)


@pytest.mark.parametrize(
    ("labels", "changes", "told"),
    [
        (("defect",), {}, "the head of 'hf:mine' has one output, a yes-or-no score"),
        (("defect",), {"problem_type": "regression"}, "the head of 'hf:mine' has one output"),
        (CLASSES, {"problem_type": "multi_label_classification"}, "'multi_label_classification': its scores"),
        (CLASSES, {"problem_type": "regression"}, "'problem_type' of 'hf:mine' is 'regression'"),
    ],
)
def test_a_head_of_transformers_without_one_class_of_several_is_refused_as_it_is_described(
    labels: tuple[str, ...], changes: dict[str, Any], told: str, store: BlobStore, tmp_path: Path
) -> None:
    save_resnet(tmp_path / "root" / "mine", labels, **changes)
    own = engine(tmp_path, store)
    with pytest.raises(ModelFormatRefused, match=told):
        own.describe(DescribeRequest(classifier="hf:mine"))
    with pytest.raises(ModelFormatRefused, match=told):
        ask(own, "hf:mine", [put_image(store, 0)], labels)


def test_a_head_of_single_labels_is_read(store: BlobStore, tmp_path: Path) -> None:
    save_resnet(tmp_path / "root" / "mine", CLASSES, problem_type="single_label_classification")
    [found] = predictions(ask(engine(tmp_path, store), "hf:mine", [put_image(store, 0)]))
    assert sum(found.probabilities) == pytest.approx(1.0)


def save_network(folder: Path, classes: tuple[str, ...], arguments: dict[str, Any], size: list[int]) -> None:
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    network = timm.create_model("resnet10t", num_classes=len(classes), **arguments)
    save_file(network.state_dict(), folder / "model.safetensors")
    described = {"input_size": size, "mean": [0.5] * size[0], "std": [0.5] * size[0]}
    config = {"architecture": "resnet10t", "model_args": arguments, "pretrained_cfg": described}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "class_map.json").write_text(json.dumps(list(classes)), encoding="utf-8")


@pytest.mark.parametrize(
    ("classes", "arguments", "size", "told"),
    [
        (CLASSES, {"in_chans": 1}, [1, 64, 64], "three channels .* to have 1 channels"),
        (
            CLASSES,
            {"in_chans": 4},
            [4, 64, 64],
            "'local:mine' fails on an image of three channels|cannot build",
        ),
        (CLASSES, {"in_chans": 1}, [3, 64, 64], "three channels .* to have 1 channels"),
        (CLASSES, {"global_pool": ""}, [3, 64, 64], "three channels .* shapes cannot be multiplied"),
        (("defect",), {}, [3, 64, 64], "the head of 'local:mine' has one output"),
    ],
)
def test_a_network_that_cannot_classify_an_image_is_refused_in_one_sentence(
    classes: tuple[str, ...],
    arguments: dict[str, Any],
    size: list[int],
    told: str,
    store: BlobStore,
    tmp_path: Path,
) -> None:
    save_network(tmp_path / "models" / "mine", classes, arguments, size)
    with pytest.raises(ModelFormatRefused, match=told) as refused:
        ask(engine(tmp_path, store), "local:mine", [put_image(store, 0)], classes)
    assert "\n" not in refused.value.detail


def test_a_network_of_transformers_for_one_channel_is_refused_in_one_sentence(
    store: BlobStore, tmp_path: Path
) -> None:
    save_resnet(tmp_path / "root" / "mine", CLASSES, num_channels=1)
    with pytest.raises(ModelFormatRefused, match=r"'hf:mine' fails on a grey image .*channel"):
        ask(engine(tmp_path, store), "hf:mine", [put_image(store, 0)])


LABELS = tuple(ImageNetInfo().index_to_description(row).split(", ")[0] for row in range(1000))


def head_of(*labels: str) -> HeadClasses:
    return head_classes({"id2label": {str(row): label for row, label in enumerate(labels)}}, "hf:net")


def test_a_head_with_a_background_before_imagenet_s_classes_answers_to_all_their_names() -> None:
    head, plain = head_of("background", *LABELS), head_of(*LABELS)
    names = list(class_names().values())
    assert len(head) == 1001
    assert np.array_equal(head.selection(names, {}).rows, np.array(plain.selection(names, {}).rows) + 1)
    assert head.selection(["crane (wading bird)", "crane (lifting device)"], {}).rows == ((135,), (518,))
    assert head.selection(["background", "n02012849"], {}).rows == ((0,), (135,))


@pytest.mark.parametrize("labels", [("none", *LABELS[:-1], "gyromitra"), ("a", "b", *LABELS), LABELS[:999]])
def test_another_list_of_about_a_thousand_classes_is_not_taken_for_imagenet_s(
    labels: tuple[str, ...],
) -> None:
    with pytest.raises(ClassMapMismatch, match="n02012849"):
        head_of(*labels).selection(["n02012849"], {})


def test_a_label_map_names_a_row_by_its_number() -> None:
    head = head_of("crane", "boat", "crane", "night")
    rows = head.selection(["bird", "machine", "boat"], {"bird": ["#0"], "machine": ["#2", "#3"]}).rows
    assert rows == ((0,), (2, 3), (1,))


@pytest.mark.parametrize(
    ("classes", "label_map", "told"),
    [
        (
            ["crane"],
            {},
            "'crane' matches 2 classes of the classifier; name its row in a label map: '#0' and '#2'",
        ),
        (["bird"], {"bird": ["crane"]}, "name its row in a label map: '#0' and '#2'"),
        (["bird"], {"bird": ["#4"]}, "no class '#4' for 'bird'; .* '#0' to '#3'"),
        (["bird"], {"bird": ["#-1"]}, "no class '#-1' for 'bird'"),
        (["#1"], {}, "no class '#1' for '#1'"),
        (["bird", "boat"], {"bird": ["#1"]}, "shares a head class"),
        (["zeppelin"], {}, "no class 'zeppelin' .* or one of its rows, '#0' to '#3'"),
    ],
)
def test_what_names_no_single_row_is_refused_with_what_would(
    classes: list[str], label_map: dict[str, list[str]], told: str
) -> None:
    with pytest.raises(ClassMapMismatch, match=told):
        head_of("crane", "boat", "crane", "night").selection(classes, label_map)


def test_a_class_that_is_called_like_a_row_precedes_it() -> None:
    assert head_of("boat", "#0").selection(["one"], {"one": ["#0"]}).rows == ((1,),)
