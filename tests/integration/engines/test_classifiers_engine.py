"""The classifiers on small timm networks, a tiny CLIP and a remote model behind a mock transport."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from safetensors.torch import load_file, save_file

from fakes.tiny_models.clip import save_clip
from fakes.tiny_models.timm import plain_logits, save_timm
from faultline_core.blobs import BlobStore
from faultline_core.contract.base import Outcome
from faultline_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from faultline_core.errors import (
    BadBackendOutput,
    ClassMapMismatch,
    FaultlineError,
    InvalidRequest,
    ModelFormatRefused,
    UnknownModel,
)
from faultline_core.images import decode_image, encode_raw
from faultline_core.suite import ClassifiersSuite
from faultline_services.classifiers import timm_zoo
from faultline_services.classifiers.class_map import HeadClasses, read_class_map, read_label_map
from faultline_services.classifiers.engine import ClassifiersEngine
from faultline_services.classifiers.options import ClassifierOptions
from faultline_services.classifiers.sources import Sources
from faultline_services.classifiers.timm_folder import load_folder
from faultline_services.classifiers.timm_network import TimmClassifier
from faultline_services.classifiers.timm_zoo import imagenet_classes
from faultline_services.classifiers.zero_shot import prompt_of

CLASSES = ("boat", "tram", "sled", "night", "sea")
SUITE = ClassifiersSuite(
    models={"resnet": "classifiers/resnet", "gone": "classifiers/gone"},
    zero_shot={"zero-shot": "clip"},
    batch=2,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    save_timm(folder / "classifiers" / "resnet", CLASSES)
    save_clip(folder / "clip")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "store"))


@pytest.fixture
def engine(root: Path, store: BlobStore) -> ClassifiersEngine:
    return ClassifiersEngine.load(SUITE, root, store, ClassifierOptions())


def picture(store: BlobStore, seed: int) -> str:
    patches = np.random.default_rng(seed).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return store.put(encode_raw(patches.repeat(14, axis=0).repeat(16, axis=1)))


def ask(
    engine: ClassifiersEngine,
    classifier: str,
    images: list[str],
    classes: tuple[str, ...] = CLASSES,
    *,
    features: bool = False,
) -> ClassifyResponse:
    return engine.classify(
        ClassifyRequest(classifier=classifier, images=images, classes=list(classes), features=features)
    )


def predictions(response: ClassifyResponse) -> list[Prediction]:
    return [outcome.unwrap() for outcome in response.outcomes]


def code_of(outcome: Outcome[Any]) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


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


@pytest.mark.parametrize("classes", [("boat", "zeppelin"), ("boat", "BOAT")])
def test_a_class_without_its_own_place_in_the_head_is_a_mismatch(
    classes: tuple[str, ...], engine: ClassifiersEngine, store: BlobStore
) -> None:
    with pytest.raises(ClassMapMismatch):
        ask(engine, "resnet", [picture(store, 0)], classes)


def test_a_class_asked_for_twice_is_refused(engine: ClassifiersEngine, store: BlobStore) -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        ask(engine, "resnet", [picture(store, 0)], ("boat", "boat"))


def test_a_label_map_sums_the_head_classes_it_names(root: Path, store: BlobStore, tmp_path: Path) -> None:
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({"vehicle": ["boat", "tram"]}), encoding="utf-8")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(label_map=file))
    image = picture(store, 5)
    (whole,) = predictions(ask(engine, "resnet", [image]))
    (mapped,) = predictions(ask(engine, "resnet", [image], ("vehicle", "sled")))
    assert mapped.probabilities[0] == pytest.approx(sum(whole.probabilities[:2]))
    assert mapped.probabilities[1] == pytest.approx(whole.probabilities[2])


def test_imagenet_classes_answer_to_synonyms_and_wordnet_ids() -> None:
    head = imagenet_classes()
    assert len(head) == 1000
    assert head.selection(["tench", "n01443537", "Great White Shark"], {}).rows == ((0,), (1,), (2,))
    with pytest.raises(ClassMapMismatch, match="crane"):
        head.selection(["crane"], {})


def test_fifteen_classes_on_a_thousand_way_head_keep_their_own_mass() -> None:
    head = imagenet_classes()
    names = [head.own_names[row] for row in range(0, 990, 66)]
    odds = np.full(1000, 0.001, dtype=np.float32)
    assert len(names) == 15
    assert head.selection(names, {})(odds) == pytest.approx(np.full(15, 0.001))


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


def write_config(text: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "config.json").write_text(text, encoding="utf-8")

    return spoil


def write_class_map(text: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "class_map.json").write_text(text, encoding="utf-8")

    return spoil


def break_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x80\x02pickle")


def pickle_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def fewer_classes(folder: Path) -> None:
    (folder / "class_map.json").write_text(json.dumps(CLASSES[:3]), encoding="utf-8")


def name_classes(*names: str) -> Callable[[Path], None]:
    return write_class_map(json.dumps(names))


def spoil_weight(name: str, value: float) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors[name].flatten()[0] = value
        save_file(tensors, folder / "model.safetensors")

    return spoil


def reshape_weight(name: str, shape: tuple[int, ...]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        save_file(tensors | {name: torch.zeros(shape)}, folder / "model.safetensors")

    return spoil


def long_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((2**63).to_bytes(8, "little") + b"{}")


def no_class_map(folder: Path) -> None:
    (folder / "class_map.json").unlink()


def configured(**changes: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")

    return spoil


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
def test_a_spoilt_checkpoint_is_refused(
    spoil: Callable[[Path], None], error: type[FaultlineError], root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "models" / "mine", CLASSES)
    spoil(tmp_path / "models" / "mine")
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    with pytest.raises(error):
        ask(engine, "local:mine", [picture(store, 0)])


def test_a_spoilt_checkpoint_costs_the_others_nothing(root: Path, store: BlobStore, tmp_path: Path) -> None:
    for name, spoil in (("broken", long_header), ("deep", write_class_map("[" * 10**5)), ("mine", None)):
        save_timm(tmp_path / "models" / name, CLASSES)
        if spoil is not None:
            spoil(tmp_path / "models" / name)
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions(models_folder=tmp_path / "models"))
    for refused in ("local:broken", "local:deep"):
        with pytest.raises(FaultlineError):
            ask(engine, refused, [picture(store, 0)])
    assert len(predictions(ask(engine, "local:mine", [picture(store, 0)]))) == 1
    assert "local:deep" not in {one.spec for one in engine.list_classifiers().classifiers}


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


@pytest.mark.parametrize("spoil", [long_header, spoil_weight("fc.bias", float("nan"))])
def test_a_spoilt_file_of_the_zoo_is_refused(
    spoil: Callable[[Path], None], root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "zoo", imagenet_classes().own_names)
    spoil(tmp_path / "zoo")
    sources = Sources(
        SUITE, root, store, ClassifierOptions(), fetch=lambda _: tmp_path / "zoo" / "model.safetensors"
    )
    with pytest.raises(ModelFormatRefused):
        sources.load("timm:test_resnet.r160_in1k")


def test_the_zoo_is_fetched_by_repository_and_read_from_safetensors(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    names = imagenet_classes().own_names
    save_timm(tmp_path / "zoo", names)
    asked: list[str] = []

    def fetch(repository: str) -> Path:
        asked.append(repository)
        return tmp_path / "zoo" / "model.safetensors"

    sources = Sources(SUITE, root, store, ClassifierOptions(), fetch=fetch)
    engine = ClassifiersEngine(sources, cache_bytes=10**9)
    found = ask(engine, "timm:test_resnet.r160_in1k", [picture(store, 0)], ("tench", "goldfish"))
    assert asked == ["timm/test_resnet.r160_in1k"]
    assert len(predictions(found)[0].probabilities) == 2


def test_a_suite_may_forbid_the_zoo(root: Path, store: BlobStore) -> None:
    suite = SUITE.model_copy(update={"allow_timm": False})
    engine = ClassifiersEngine.load(suite, root, store, ClassifierOptions())
    with pytest.raises(UnknownModel, match="allow"):
        ask(engine, "timm:test_resnet", [picture(store, 0)])


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


def test_a_class_name_that_makes_no_prompt_is_a_mismatch(engine: ClassifiersEngine, store: BlobStore) -> None:
    with pytest.raises(ClassMapMismatch, match="no usable prompt"):
        ask(engine, "zero-shot", [picture(store, 0)], ("boat", "sled with dogs " * 20))


@pytest.mark.parametrize("text", ["{", "[1]", '{"boat": "tram"}', '{"boat": []}', '{"boat": [1]}', None])
def test_a_label_map_that_is_none_is_refused_by_name(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "labels.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ClassMapMismatch, match=r"labels\.json"):
        read_label_map(file)


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


def test_a_label_map_must_choose_where_the_head_has_two_of_a_name() -> None:
    head = HeadClasses((("crane",), ("crane",), ("boat",)))
    with pytest.raises(ClassMapMismatch, match="2 classes"):
        head.selection(["crane"], {})


def test_two_classes_may_not_share_a_row_of_the_head() -> None:
    head = HeadClasses((("boat",), ("tram",)))
    with pytest.raises(ClassMapMismatch, match="shares"):
        head.selection(["boat", "vessel"], {"vessel": ["boat"]})


def test_one_class_may_not_count_a_row_twice() -> None:
    head = HeadClasses((("boat",), ("tram",)))
    with pytest.raises(ClassMapMismatch, match="shares"):
        head.selection(["vessel"], {"vessel": ["boat", "Boat"]})


def test_a_head_of_another_width_than_its_class_map_is_no_answer(root: Path, store: BlobStore) -> None:
    network = load_folder(root / "classifiers" / "resnet", "resnet")
    narrow = replace(network, head=HeadClasses((("boat",), ("tram",))))
    classifier = TimmClassifier(narrow, label_map={}, store=store, batch=2, device="cpu")
    with pytest.raises(BadBackendOutput, match="for 2 classes"):
        classifier.predict([picture(store, 0)])


class Hub:
    """Stands for the hub's download: remembers whether the network was allowed, then answers or raises."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.local_only: list[bool] = []

    def __call__(self, repository: str, name: str, *, local_files_only: bool) -> str:
        assert name == "model.safetensors"
        self.local_only.append(local_files_only)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_weights_on_this_machine_are_not_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub("/cache/model.safetensors")
    monkeypatch.setattr(timm_zoo, "hf_hub_download", hub)
    assert timm_zoo.hub_weights("timm/net") == Path("/cache/model.safetensors")
    assert hub.local_only == [True]


def test_weights_are_fetched_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(LocalEntryNotFoundError("not here"), "/cache/model.safetensors")
    monkeypatch.setattr(timm_zoo, "hf_hub_download", hub)
    timm_zoo.hub_weights("timm/net")
    assert hub.local_only == [True, False]


def test_a_hub_out_of_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = LocalEntryNotFoundError("no network")
    monkeypatch.setattr(timm_zoo, "hf_hub_download", Hub(nowhere, nowhere))
    with pytest.raises(UnknownModel, match="out of reach"):
        timm_zoo.hub_weights("timm/net")


def test_a_repository_without_safetensors_is_not_read_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = httpx.Response(404, request=httpx.Request("GET", "https://hub.test/net"))
    refused = HfHubHTTPError("no such file", response=answer)
    monkeypatch.setattr(timm_zoo, "hf_hub_download", Hub(LocalEntryNotFoundError("not here"), refused))
    with pytest.raises(UnknownModel, match=r"no model\.safetensors"):
        timm_zoo.hub_weights("timm/net")


def test_a_network_of_another_head_than_imagenets_is_refused() -> None:
    with pytest.raises(UnknownModel, match="ImageNet-1k"):
        timm_zoo.load_zoo("vit_base_patch16_224.augreg_in21k", Path)
