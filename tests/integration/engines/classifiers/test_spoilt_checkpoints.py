"""The service's loader refuses a user's corrupt, incomplete or hostile checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import (
    ClassMapMismatch,
    CounterposeError,
    ModelFormatRefused,
    UnknownModel,
)
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from fakes.damaged_checkpoints import (
    break_weights,
    configured,
    fewer_classes,
    long_header,
    name_classes,
    no_class_map,
    pickle_weights,
    reshape_weight,
    spoil_weight,
    write_class_map,
    write_config,
)
from fakes.tiny_classifiers import CLASSES, SUITE, ask, predictions, put_image
from fakes.tiny_models.timm import save_timm


@pytest.mark.fault("B40", "B45")
@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (break_weights, ModelFormatRefused),
        (configured(model_args={"checkpoint_path": "/tmp/pickle.pth"}), ModelFormatRefused),
        (configured(model_args={"pretrained": True}), ModelFormatRefused),
        (configured(model_args={"num_classes": 7}), ModelFormatRefused),
        (configured(model_args=["rm"]), ModelFormatRefused),
        (configured(architecture="local-dir:/etc"), UnknownModel),
        (configured(architecture=None), UnknownModel),
        (configured(pretrained_cfg={"mean": "grey"}), ModelFormatRefused),
        (configured(pretrained_cfg={"no such setting": 1}), ModelFormatRefused),
        (write_config("[1]"), ModelFormatRefused),
        (pickle_weights, ModelFormatRefused),
        (fewer_classes, ClassMapMismatch),
        (name_classes(*CLASSES, "moon"), ClassMapMismatch),
        (name_classes(*CLASSES[:4], "boat"), ClassMapMismatch),
        (name_classes(*CLASSES[:4], "Boat"), ClassMapMismatch),
        (name_classes(*CLASSES[:4], "boat_"), ClassMapMismatch),
        (name_classes(*CLASSES[:4], " "), ClassMapMismatch),
        (name_classes(*CLASSES[:4], "\ud800"), ClassMapMismatch),
        (spoil_weight("fc.weight", float("nan")), ModelFormatRefused),
        (spoil_weight("fc.bias", float("inf")), ModelFormatRefused),
        (reshape_weight("fc.weight", (len(CLASSES), 1)), ModelFormatRefused),
        (reshape_weight("fc.bias", (1, len(CLASSES))), ModelFormatRefused),
        (long_header, ModelFormatRefused),
        (write_config("[" * 10**5), ModelFormatRefused),
        (no_class_map, ClassMapMismatch),
        (write_config(json.dumps({"architecture": "lenet"})), UnknownModel),
        (write_config("["), ModelFormatRefused),
        (configured(model_args={"rm": "-rf"}), ModelFormatRefused),
    ],
)
def test_a_corrupt_checkpoint_is_refused(
    spoil: Callable[[Path], None], error: type[CounterposeError], root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES)
    spoil(tmp_path / "models" / "mine")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    with pytest.raises(error):
        ask(engine, "local:mine", [put_image(store, 0)])


@pytest.mark.fault("B45")
def test_a_corrupt_checkpoint_does_not_affect_other_classifiers(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    for name, spoil in (("broken", long_header), ("deep", write_class_map("[" * 10**5)), ("mine", None)):
        save_timm(tmp_path / "models" / name, CLASSES)
        if spoil is not None:
            spoil(tmp_path / "models" / name)
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    for refused in ("local:broken", "local:deep"):
        with pytest.raises(CounterposeError):
            ask(engine, refused, [put_image(store, 0)])
    assert len(predictions(ask(engine, "local:mine", [put_image(store, 0)]))) == 1
    assert "local:deep" not in {one.spec for one in engine.list_classifiers().classifiers}
