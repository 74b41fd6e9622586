"""The classifiers on small timm networks and a tiny CLIP."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fakes.spoilt_checkpoints import no_class_map
from fakes.tiny_classifiers import CLASSES, SUITE, ask, code_of, picture, predictions
from fakes.tiny_models.timm import plain_logits, save_timm
from faultline_core.blobs import BlobStore
from faultline_core.contract.classifiers import ClassifyRequest
from faultline_core.errors import (
    UnknownModel,
)
from faultline_core.images import decode_image
from faultline_services.classifiers.engine import ClassifiersEngine
from faultline_services.classifiers.options import ClassifierOptions
from faultline_services.classifiers.timm_folder import load_folder
from faultline_services.classifiers.zero_shot import prompt_of


def test_predictions_are_the_softmax_of_the_networks_own_head(
    engine: ClassifiersEngine, root: Path, store: BlobStore
) -> None:
    image = picture(store, 0)
    (found,) = predictions(ask(engine, "resnet", [image], features=True))
    network = load_folder(root / "classifiers" / "resnet", "resnet")
    logits = plain_logits(network.module, decode_image(store.get(image)))
    odds = np.exp(logits - logits.max())
    assert found.probabilities == pytest.approx(odds / odds.sum(), abs=1e-4)
    assert found.top == np.argsort(-logits).tolist()
    assert found.features is not None
    assert len(found.features) == network.module.num_features


def test_classes_are_matched_by_name_not_by_place(engine: ClassifiersEngine, store: BlobStore) -> None:
    image = picture(store, 1)
    (whole,) = predictions(ask(engine, "resnet", [image]))
    (part,) = predictions(ask(engine, "resnet", [image], ("sea", "Boat")))
    assert part.probabilities == pytest.approx([whole.probabilities[4], whole.probabilities[0]])
    assert sum(part.probabilities) < 1
    assert part.top == ([0, 1] if part.probabilities[0] >= part.probabilities[1] else [1, 0])


def test_a_bad_picture_fails_alone(engine: ClassifiersEngine, store: BlobStore) -> None:
    images = [picture(store, 0), store.put(b"no picture"), "e" * 64, picture(store, 2)]
    outcomes = ask(engine, "resnet", images).outcomes
    assert [code_of(one) for one in outcomes] == [None, "image-undecodable", "artifact-missing", None]


def test_predictions_do_not_depend_on_batch_mates(
    engine: ClassifiersEngine, root: Path, tmp_path: Path
) -> None:
    other = BlobStore(str(tmp_path / "other"))
    images = [picture(other, seed) for seed in range(3)]
    together = predictions(
        ask(ClassifiersEngine.load(SUITE, root, other, ClassifierOptions()), "resnet", images)
    )
    apart = BlobStore(str(tmp_path / "apart"))
    alone = ClassifiersEngine.load(SUITE, root, apart, ClassifierOptions())
    for seed, shared in enumerate(together):
        (single,) = predictions(ask(alone, "resnet", [picture(apart, seed)]))
        assert single.probabilities == pytest.approx(shared.probabilities, abs=1e-5)


def test_predictions_are_remembered_by_weights_and_picture(
    engine: ClassifiersEngine, root: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = picture(store, 3)
    first = ask(engine, "resnet", [image])
    restarted = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions())
    monkeypatch.setattr("timm.models.ByobNet.forward_features", None)
    again = ask(restarted, "resnet", [image], CLASSES[:2])
    assert again.outcomes[0].unwrap().probabilities == first.outcomes[0].unwrap().probabilities[:2]


def test_zero_shot_classes_compete_with_each_other_only(engine: ClassifiersEngine, store: BlobStore) -> None:
    image = picture(store, 4)
    (two,) = predictions(ask(engine, "zero-shot", [image], ("boat", "tram"), features=True))
    (three,) = predictions(ask(engine, "zero-shot", [image], ("boat", "tram", "sled")))
    assert sum(two.probabilities) == pytest.approx(1.0)
    assert sum(three.probabilities) == pytest.approx(1.0)
    ratio = two.probabilities[0] / two.probabilities[1]
    assert three.probabilities[0] / three.probabilities[1] == pytest.approx(ratio, rel=1e-4)
    assert two.features is not None
    assert ask(engine, "clip:zero-shot", [image], ("boat", "tram")).outcomes[0].unwrap().top == two.top


@pytest.mark.parametrize(
    ("name", "prompt"), [("boat", "a photo of a boat"), ("ice_bear", "a photo of an ice bear")]
)
def test_prompts_are_spoken_english(name: str, prompt: str) -> None:
    assert prompt_of(name) == prompt


@pytest.mark.parametrize(
    "spec",
    ["absent", "gone", "timm:no_such_net", "local:x", "clip:ViT-L-14", "oip:http://localhost/v2/models/m"],
)
def test_what_is_not_there_is_unknown(spec: str, engine: ClassifiersEngine, store: BlobStore) -> None:
    with pytest.raises(UnknownModel):
        ask(engine, spec, [picture(store, 0)])


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
def test_paths_and_foreign_schemes_are_no_names(spec: str, root: Path, store: BlobStore) -> None:
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=root / "classifiers"))
    request = ClassifyRequest.model_construct(
        classifier=spec, images=[picture(store, 0)], classes=list(CLASSES), features=False
    )
    with pytest.raises(UnknownModel):
        engine.classify(request)


def test_no_server_runs_a_python_function(engine: ClassifiersEngine, store: BlobStore) -> None:
    request = ClassifyRequest.model_construct(
        classifier="py:os:system", images=[picture(store, 0)], classes=list(CLASSES), features=False
    )
    with pytest.raises(UnknownModel, match="never on a server"):
        engine.classify(request)


def test_the_users_own_checkpoint_answers_to_local(root: Path, store: BlobStore, tmp_path: Path) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES, seed=5)
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    image = picture(store, 6)
    mine, theirs = ask(engine, "local:mine", [image]), ask(engine, "resnet", [image])
    assert mine.model.revision != theirs.model.revision
    assert predictions(mine) != predictions(theirs)
    assert {one.spec for one in engine.list_classifiers().classifiers} == {
        "resnet",
        "zero-shot",
        "local:mine",
    }


def test_a_head_that_overflows_is_a_problem_of_each_picture(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES)
    weights = tmp_path / "models" / "mine" / "model.safetensors"
    tensors = load_file(weights)
    save_file(tensors | {"fc.weight": torch.full_like(tensors["fc.weight"], 3e38)}, weights)
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    outcomes = ask(engine, "local:mine", [picture(store, 0), picture(store, 1)]).outcomes
    assert [code_of(one) for one in outcomes] == ["bad-backend-output"] * 2


def test_a_file_among_the_folders_of_models_is_no_classifier(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES)
    no_class_map(tmp_path / "models" / "mine")
    (tmp_path / "models" / "notes.txt").write_text("mine is the best", encoding="utf-8")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    assert [one.spec for one in engine.list_classifiers().classifiers] == ["resnet", "zero-shot"]
    with pytest.raises(UnknownModel):
        ask(engine, "local:notes.txt", [picture(store, 0)])


def test_a_link_out_of_the_models_folder_is_no_classifier(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES)
    save_timm(tmp_path / "outside", CLASSES)
    (tmp_path / "models" / "link").symlink_to(tmp_path / "outside")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    assert "local:link" not in {one.spec for one in engine.list_classifiers().classifiers}
    with pytest.raises(UnknownModel, match="out of the models folder"):
        ask(engine, "local:link", [picture(store, 0)])
