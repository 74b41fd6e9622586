"""The classifiers on small timm networks and a tiny CLIP."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.errors import (
    UnknownModel,
)
from counterpose_core.images.codecs import decode_image
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.timm_folder import load_folder
from counterpose_services.classifiers.zero_shot import prompt_of
from fakes.damaged_checkpoints import no_class_map
from fakes.tiny_classifiers import CLASSES, SUITE, ask, code_of, predictions, put_image
from fakes.tiny_models.timm import plain_logits, save_timm

pytestmark = pytest.mark.floats


@pytest.mark.paper("LANCE-S3-blackbox", "LANCE-D-preprocessing")
def test_predictions_are_the_softmax_of_the_network_s_head(
    engine: ClassifiersEngine, root: Path, store: BlobStore
) -> None:
    image = put_image(store, 0)
    (found,) = predictions(ask(engine, "resnet", [image], features=True))
    network = load_folder(root / "classifiers" / "resnet", "resnet")
    logits = plain_logits(network.module, decode_image(store.get(image)))
    odds = np.exp(logits - logits.max())
    assert found.probabilities == pytest.approx(odds / odds.sum(), abs=1e-4)
    assert found.top == np.argsort(-logits).tolist()
    assert found.features is not None
    assert len(found.features) == network.module.num_features


def test_classes_are_matched_by_name_not_by_position(engine: ClassifiersEngine, store: BlobStore) -> None:
    image = put_image(store, 1)
    (whole,) = predictions(ask(engine, "resnet", [image]))
    (part,) = predictions(ask(engine, "resnet", [image], ("sea", "Boat")))
    assert part.probabilities == pytest.approx([whole.probabilities[4], whole.probabilities[0]])
    assert sum(part.probabilities) < 1
    assert part.top == ([0, 1] if part.probabilities[0] >= part.probabilities[1] else [1, 0])


@pytest.mark.fault("B4")
def test_a_bad_image_does_not_affect_others(engine: ClassifiersEngine, store: BlobStore) -> None:
    images = [put_image(store, 0), store.put(b"no image"), "e" * 64, put_image(store, 2)]
    outcomes = ask(engine, "resnet", images).outcomes
    assert [code_of(one) for one in outcomes] == [None, "image-undecodable", "artifact-missing", None]


def test_predictions_do_not_depend_on_batch_mates(
    engine: ClassifiersEngine, root: Path, tmp_path: Path
) -> None:
    other = BlobStore(str(tmp_path / "other"))
    images = [put_image(other, seed) for seed in range(3)]
    together = predictions(
        ask(ClassifiersEngine.load(SUITE, root, other, ClassifierOptions()), "resnet", images)
    )
    apart = BlobStore(str(tmp_path / "apart"))
    alone = ClassifiersEngine.load(SUITE, root, apart, ClassifierOptions())
    for seed, shared in enumerate(together):
        (single,) = predictions(ask(alone, "resnet", [put_image(apart, seed)]))
        assert single.probabilities == pytest.approx(shared.probabilities, abs=1e-5)


def test_predictions_are_cached_by_weights_and_image(
    engine: ClassifiersEngine, root: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = put_image(store, 3)
    first = ask(engine, "resnet", [image])
    restarted = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions())
    monkeypatch.setattr("timm.models.ByobNet.forward_features", None)
    again = ask(restarted, "resnet", [image], CLASSES[:2])
    assert again.outcomes[0].unwrap().probabilities == first.outcomes[0].unwrap().probabilities[:2]


@pytest.mark.paper("LANCE-S4.1-clip-model")
def test_zero_shot_classes_compete_only_with_each_other(engine: ClassifiersEngine, store: BlobStore) -> None:
    image = put_image(store, 4)
    (two,) = predictions(ask(engine, "zero-shot", [image], ("boat", "tram"), features=True))
    (three,) = predictions(ask(engine, "zero-shot", [image], ("boat", "tram", "sled")))
    assert sum(two.probabilities) == pytest.approx(1.0)
    assert sum(three.probabilities) == pytest.approx(1.0)
    ratio = two.probabilities[0] / two.probabilities[1]
    assert three.probabilities[0] / three.probabilities[1] == pytest.approx(ratio, rel=1e-4)
    assert two.features is not None
    assert ask(engine, "clip:zero-shot", [image], ("boat", "tram")).outcomes[0].unwrap().top == two.top


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("boat", "a photo of a boat"),
        ("ice_bear", "a photo of an ice bear"),
        ("hourglass", "a photo of an hourglass"),
        ("unicycle", "a photo of a unicycle"),
    ],
)
def test_prompts_are_natural_english(name: str, prompt: str) -> None:
    assert prompt_of(name) == prompt


@pytest.mark.parametrize(
    "spec",
    ["absent", "gone", "timm:no_such_net", "local:x", "clip:ViT-L-14", "oip:http://localhost/v2/models/m"],
)
def test_a_missing_classifier_is_an_unknown_model(
    spec: str, engine: ClassifiersEngine, store: BlobStore
) -> None:
    with pytest.raises(UnknownModel):
        ask(engine, spec, [put_image(store, 0)])


@pytest.mark.parametrize(
    "spec",
    [
        "../resnet",
        "local:../suite",
        "local:..",
        "local:.",
        "local:",
        "local:a/b",
        "timm:/etc/passwd",
        "timm:local-dir:/etc",
        "timm:hf-hub:someone/net",
        "clip:../clip",
        "clip:/etc",
        "file:x",
        "hf:x",
        "",
    ],
)
def test_paths_and_unknown_schemes_are_not_valid_names(spec: str, root: Path, store: BlobStore) -> None:
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=root / "classifiers"))
    request = ClassifyRequest.model_construct(
        classifier=spec, images=[put_image(store, 0)], classes=list(CLASSES), features=False
    )
    with pytest.raises(UnknownModel):
        engine.classify(request)


def test_the_server_does_not_run_python_functions(engine: ClassifiersEngine, store: BlobStore) -> None:
    request = ClassifyRequest.model_construct(
        classifier="py:os:system", images=[put_image(store, 0)], classes=list(CLASSES), features=False
    )
    with pytest.raises(UnknownModel, match="cannot run on a server"):
        engine.classify(request)


def test_a_user_checkpoint_is_available_as_local(root: Path, store: BlobStore, tmp_path: Path) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES, seed=5)
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    image = put_image(store, 6)
    mine, theirs = ask(engine, "local:mine", [image]), ask(engine, "resnet", [image])
    assert mine.model.revision != theirs.model.revision
    assert predictions(mine) != predictions(theirs)
    assert {one.spec for one in engine.list_classifiers().classifiers} == {
        "resnet",
        "zero-shot",
        "local:mine",
    }


def test_an_overflowing_head_fails_each_image(root: Path, store: BlobStore, tmp_path: Path) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES)
    weights = tmp_path / "models" / "mine" / "model.safetensors"
    tensors = load_file(weights)
    save_file(tensors | {"fc.weight": torch.full_like(tensors["fc.weight"], 3e38)}, weights)
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    outcomes = ask(engine, "local:mine", [put_image(store, 0), put_image(store, 1)]).outcomes
    assert [code_of(one) for one in outcomes] == ["bad-backend-output"] * 2


def test_a_file_in_the_models_folder_is_not_a_classifier(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES)
    no_class_map(tmp_path / "models" / "mine")
    (tmp_path / "models" / "notes.txt").write_text("mine is the best", encoding="utf-8")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    assert [one.spec for one in engine.list_classifiers().classifiers] == ["resnet", "zero-shot"]
    with pytest.raises(UnknownModel):
        ask(engine, "local:notes.txt", [put_image(store, 0)])


@pytest.mark.fault("B41", "T16")
def test_a_link_that_leaves_the_models_folder_is_not_a_classifier(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES)
    save_timm(tmp_path / "outside", CLASSES)
    (tmp_path / "models" / "link").symlink_to(tmp_path / "outside")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    assert "local:link" not in {one.spec for one in engine.list_classifiers().classifiers}
    with pytest.raises(UnknownModel, match="out of the models folder"):
        ask(engine, "local:link", [put_image(store, 0)])
