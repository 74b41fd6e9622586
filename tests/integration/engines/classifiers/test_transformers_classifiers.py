"""Image classifiers that transformers saved, by the name of their folder or repository."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from timm.data import ImageNetInfo
from transformers import AutoImageProcessor, ViTConfig, ViTForImageClassification, ViTImageProcessor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import DescribeRequest
from counterpose_core.errors import ClassMapMismatch, CounterposeError, ModelFormatRefused, UnknownModel
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.transformers_network import head_classes
from fakes.tiny_classifiers import CLASSES, SUITE, ask, predictions, put_image
from fakes.tiny_models.llama import save_llama
from fakes.tiny_models.weights import randomised

ALLOWING = SUITE.model_copy(update={"allow_hf": True})


def save_vit(folder: Path) -> None:
    """Save a random ViT with its processor, as `save_pretrained` does."""
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32,
        patch_size=8, id2label=dict(enumerate(CLASSES)),
    )  # fmt: skip
    randomised(ViTForImageClassification(config), spread=0.5).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    save_vit(tmp_path / "root" / "mine")
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> BlobStore:
    return BlobStore(str(root.parent / "store"))


def engine(root: Path, store: BlobStore, suite: ClassifiersSuite = ALLOWING) -> ClassifiersEngine:
    return ClassifiersEngine.load(suite, root, store, ClassifierOptions())


def test_predictions_are_those_of_transformers_with_its_own_processor(root: Path, store: BlobStore) -> None:
    images = [put_image(store, seed) for seed in range(3)]
    answer = ask(engine(root, store), "hf:mine", images, tuple(reversed(CLASSES)))
    model = ViTForImageClassification.from_pretrained(root / "mine", use_safetensors=True).eval()
    processor = AutoImageProcessor.from_pretrained(root / "mine")
    pixels = [decode_image(store.get(image)) for image in images]
    with torch.inference_mode():
        odds = model(**processor(images=pixels, return_tensors="pt")).logits.softmax(-1).numpy()
    assert np.allclose([one.probabilities for one in predictions(answer)], odds[:, ::-1], atol=1e-5)
    assert answer.model.id == "hf:mine"


def test_a_repository_of_the_hub_s_cache_is_found(
    root: Path, store: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "models--maker--vit"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("c" * 40, encoding="utf-8")
    save_vit(folder / "snapshots" / ("c" * 40))
    assert len(predictions(ask(engine(root, store), "hf:maker/vit", [put_image(store, 0)]))) == 1
    with pytest.raises(UnknownModel, match="run: hf download maker/other "):
        ask(engine(root, store), "hf:maker/other", [put_image(store, 0)])


def test_a_network_is_described_without_its_weights(root: Path, store: BlobStore) -> None:
    found = engine(root, store).describe(DescribeRequest(classifier="hf:mine"))
    assert (found.architecture, found.classes) == ("ViTForImageClassification", list(CLASSES))
    assert found.parameters is not None
    assert found.parameters > 1000


def test_a_suite_that_does_not_allow_them_says_so(root: Path, store: BlobStore) -> None:
    with pytest.raises(UnknownModel, match="the suite does not allow 'hf:mine'"):
        ask(engine(root, store, SUITE), "hf:mine", [put_image(store, 0)])


def spoil(folder: Path, how: str) -> None:
    """Make the folder one that cannot be meant."""
    config, weights = json.loads((folder / "config.json").read_text("utf-8")), folder / "model.safetensors"
    if how == "pickle":
        weights.rename(folder / "pytorch_model.bin")
    elif how == "architecture":
        config["hidden_size"] = 32
    elif how == "head":
        kept = {name: one for name, one in load_file(weights).items() if not name.startswith("classifier")}
        save_file(kept, weights, metadata={"format": "pt"})
    elif how == "code":
        config |= {"model_type": "mine", "auto_map": {"AutoModelForImageClassification": "code.Net"}}
        (folder / "code.py").write_text("raise SystemExit('this ran')", encoding="utf-8")
    elif how == "labels":
        del config["id2label"]["2"]
    elif how == "processor":
        for file in folder.glob("*processor_config.json"):
            file.unlink()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.fault("B42")
@pytest.mark.parametrize(
    ("how", "error", "told"),
    [
        ("pickle", ModelFormatRefused, "no safetensors weights"),
        ("architecture", ModelFormatRefused, "do not fit its config.json"),
        ("head", ModelFormatRefused, "they lack 'classifier."),
        ("code", ModelFormatRefused, "'hf:mine' needs code of its own repository"),
        ("labels", ClassMapMismatch, "'id2label' of 'hf:mine' does not name every class"),
        ("processor", ModelFormatRefused, "cannot load 'hf:mine' as an image classifier with its processor"),
    ],
)
def test_a_folder_that_cannot_be_meant_is_refused(
    root: Path, store: BlobStore, how: str, error: type[CounterposeError], told: str
) -> None:
    spoil(root / "mine", how)
    with pytest.raises(error) as refused:
        ask(engine(root, store), "hf:mine", [put_image(store, 0)])
    assert told in refused.value.detail


def test_another_kind_of_model_is_refused(root: Path, store: BlobStore) -> None:
    save_llama(root / "llama")
    with pytest.raises((ClassMapMismatch, ModelFormatRefused), match="'hf:llama'"):
        ask(engine(root, store), "hf:llama", [put_image(store, 0)])


def test_imagenet_s_head_answers_to_every_name_of_its_classes() -> None:
    info = ImageNetInfo()
    labels = {str(row): info.index_to_description(row) for row in range(1000)}
    wanted = ["n02012849", "n03126707", "airliner", "tench"]
    selected = head_classes({"id2label": labels}, "hf:net").selection(wanted, {})
    assert selected.rows == ((134,), (517,), (404,), (0,))
