"""A network of a user's folder is fed otherwise as another folder of the same weights is fed by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifyRequest, DescribeRequest
from counterpose_core.contract.preparations import NORMALISED, PREPARATIONS
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import decode_image, encode_raw
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from evaluation.reference.same_answers import FLOAT32
from fakes.tiny_classifiers import CLASSES, SUITE, put_image
from fakes.tiny_models.onnx import linear_graph, save_onnx
from fakes.tiny_models.timm import PREPARATION, save_timm
from fakes.tiny_models.weights import randomised

pytestmark = pytest.mark.floats

Normalisation = tuple[Sequence[float], Sequence[float]]


def save_as_timm(folder: Path, by: Normalisation) -> str:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_timm(folder, CLASSES)
    config = json.loads((folder / "config.json").read_text())
    config["pretrained_cfg"] |= {"mean": by[0], "std": by[1]}
    (folder / "config.json").write_text(json.dumps(config))
    return f"local:{folder.name}"


def save_as_onnx(folder: Path, by: Normalisation) -> str:
    cfg = PREPARATION | {"mean": by[0], "std": by[1]}
    save_onnx(folder, CLASSES, linear_graph(len(CLASSES)), {"pretrained_cfg": cfg})
    return f"local:{folder.name}"


def save_as_transformers(folder: Path, by: Normalisation) -> str:
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32,
        patch_size=8, id2label=dict(enumerate(CLASSES)),
    )  # fmt: skip
    randomised(ViTForImageClassification(config), spread=0.5).save_pretrained(folder)
    processor = ViTImageProcessor(size={"height": 32, "width": 32}, image_mean=by[0], image_std=by[1])
    processor.save_pretrained(folder)
    return f"hf:{folder.name}"


SAVED = pytest.mark.parametrize("save", [save_as_timm, save_as_onnx, save_as_transformers])
Save = Callable[[Path, Normalisation], str]


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "store"))


@pytest.fixture
def engine(tmp_path: Path, store: BlobStore) -> ClassifiersEngine:
    options = ClassifierOptions(models_folder=tmp_path)
    return ClassifiersEngine.load(
        SUITE.model_copy(update={"allow_hf": True, "models": {}, "zero_shot": {}}), tmp_path, store, options
    )


def answers(
    engine: ClassifiersEngine, spec: str, images: list[str], prepared: str | None = None
) -> list[list[float]]:
    request = ClassifyRequest(classifier=spec, images=images, classes=list(CLASSES), prepared=prepared)
    return [each.unwrap().probabilities for each in engine.classify(request).outcomes]


@SAVED
@pytest.mark.parametrize("name", list(NORMALISED))
def test_another_normalisation_gives_what_a_folder_that_says_it_gives(
    save: Save, name: str, engine: ClassifiersEngine, store: BlobStore, tmp_path: Path
) -> None:
    own = NORMALISED["imagenet" if name == "signed" else "signed"]
    mine, right = save(tmp_path / "mine", own), save(tmp_path / "right", NORMALISED[name])
    images = [put_image(store, seed) for seed in range(3)]
    expected = answers(engine, right, images)
    assert not np.allclose(answers(engine, mine, images), expected, atol=1e-3)
    np.testing.assert_allclose(answers(engine, mine, images, name), expected, atol=1e-4, rtol=0.0)


@SAVED
def test_blue_before_red_gives_what_images_with_their_channels_turned_round_give(
    save: Save, engine: ClassifiersEngine, store: BlobStore, tmp_path: Path
) -> None:
    mine, image = save(tmp_path / "mine", NORMALISED["signed"]), put_image(store, 0)
    turned = store.put(encode_raw(np.ascontiguousarray(decode_image(store.get(image))[..., ::-1])))
    (found,), (expected,) = answers(engine, mine, [image], "blue-first"), answers(engine, mine, [turned])
    np.testing.assert_allclose(found, expected, atol=FLOAT32, rtol=0.0)


@SAVED
@pytest.mark.parametrize("own", list(NORMALISED))
def test_a_description_names_the_preparations_beside_its_own(
    save: Save, own: str, engine: ClassifiersEngine, tmp_path: Path
) -> None:
    found = engine.describe(DescribeRequest(classifier=save(tmp_path / "mine", NORMALISED[own])))
    assert found.preparations == {name: words for name, words in PREPARATIONS.items() if name != own}


def test_a_folder_that_gives_no_normalisation_is_fed_as_imagenet(
    engine: ClassifiersEngine, tmp_path: Path
) -> None:
    spec = save_as_timm(tmp_path / "mine", NORMALISED["signed"])
    config = json.loads((tmp_path / "mine" / "config.json").read_text())
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config | {"pretrained_cfg": {}}))
    assert "imagenet" not in engine.describe(DescribeRequest(classifier=spec)).preparations


def test_an_unknown_preparation_is_refused_by_its_name(
    engine: ClassifiersEngine, store: BlobStore, tmp_path: Path
) -> None:
    spec = save_as_timm(tmp_path / "mine", NORMALISED["signed"])
    with pytest.raises(InvalidRequest, match="no preparation 'upside-down'; there are plain, imagenet"):
        answers(engine, spec, [put_image(store, 0)], "upside-down")
