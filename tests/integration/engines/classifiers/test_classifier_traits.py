"""The traits that classifiers are grouped by: read from their files without loading weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_services.classifiers import registry as loading
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.timm_folder import load_folder
from counterpose_services.models.clip_encoder import ClipEncoder
from fakes.tiny_classifiers import CLASSES, SUITE
from fakes.tiny_models.timm import SIDE, save_timm


def described(root: Path, store: BlobStore, models: Path | None = None) -> dict[str, ClassifierDescription]:
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=models))
    return {one.spec: one for one in engine.list_classifiers().classifiers}


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("architecture", ["test_resnet", "test_efficientnet", "test_convnext"])
def test_a_listing_shows_size_resolution_and_training_without_loading_weights(
    root: Path, store: BlobStore, tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_timm(tmp_path / "mine", CLASSES, architecture=architecture)
    module = load_folder(tmp_path / "mine", "mine").module
    config = json.loads((tmp_path / "mine" / "config.json").read_text())
    edit_config(tmp_path / "mine", pretrained_cfg=config["pretrained_cfg"] | {"tag": "a1_in1k"})
    monkeypatch.setattr(loading, "load_folder", None)
    found = described(root, store, tmp_path)["local:mine"]
    assert found.architecture == architecture
    assert found.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert (found.resolution, found.training) == (SIDE, "a1_in1k")


def test_the_suite_s_classifiers_are_described_too(root: Path, store: BlobStore) -> None:
    found = described(root, store)
    assert found["resnet"].parameters is not None
    assert (found["resnet"].resolution, found["resnet"].training) == (SIDE, "")
    clip = ClipEncoder(root / "clip")
    parameters = sum(parameter.numel() for parameter in clip._model.parameters())
    assert found["zero-shot"].parameters == parameters
    assert found["zero-shot"].resolution == clip._model.visual.image_size[0]


@pytest.mark.parametrize(
    ("pretrained", "resolution"),
    [
        ({"input_size": [3, 96, 64], "tag": 7}, 64),
        ({"input_size": [3, 0, 64]}, None),
        ({"input_size": "3, 64, 64"}, None),
        ({"input_size": [3, True, True]}, None),
        ([1], None),
        (None, None),
    ],
)
def test_missing_or_invalid_metadata_is_left_empty(
    root: Path, store: BlobStore, tmp_path: Path, pretrained: object, resolution: int | None
) -> None:
    save_timm(tmp_path / "mine", CLASSES)
    edit_config(tmp_path / "mine", pretrained_cfg=pretrained)
    (tmp_path / "mine" / "model.safetensors").write_bytes(b"rubbish")
    found = described(root, store, tmp_path)["local:mine"]
    assert (found.parameters, found.resolution, found.training) == (None, resolution, "")
