"""A user's ONNX network: predictions equal to torch's, and everything that is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_core.errors import ClassMapMismatch, CounterposeError, ModelFormatRefused
from counterpose_core.images.codecs import decode_image, encode_raw
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers import onnx_file
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.timm_folder import load_folder
from evaluation.reference.same_answers import FLOAT32
from fakes.tiny_models.onnx import DESCRIPTION, exported, linear_graph, save_onnx
from fakes.tiny_models.timm import SIDE, plain_logits, save_timm

pytestmark = pytest.mark.floats

CLASSES = ("boat", "tram", "sled", "night", "sea")
SPEC = "local:mine"


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "store"))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return tmp_path / "models" / "mine"


@pytest.fixture
def engine(tmp_path: Path, store: BlobStore) -> ClassifiersEngine:
    options = ClassifierOptions(models_folder=tmp_path / "models")
    return ClassifiersEngine.load(ClassifiersSuite(batch=2), tmp_path / "no-suite", store, options)


def put_image(store: BlobStore, seed: int) -> str:
    patches = np.random.default_rng(seed).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return store.put(encode_raw(patches.repeat(14, axis=0).repeat(16, axis=1)))


def ask(engine: ClassifiersEngine, *images: str, classes: tuple[str, ...] = CLASSES) -> ClassifyResponse:
    return engine.classify(ClassifyRequest(classifier=SPEC, images=list(images), classes=list(classes)))


def rows(response: ClassifyResponse) -> list[list[float]]:
    return [outcome.unwrap().probabilities for outcome in response.outcomes]


def code_of(outcome: Outcome[Any]) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


def softmax(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    odds = np.exp(logits - logits.max())
    return np.asarray(odds / odds.sum())


@pytest.mark.paper("LANCE-S3-blackbox")
@pytest.mark.parametrize("open_batch", [True, False])
def test_predictions_match_the_same_network_in_torch(
    open_batch: bool, engine: ClassifiersEngine, store: BlobStore, mine: Path, tmp_path: Path
) -> None:
    save_timm(tmp_path / "torch", CLASSES)
    module = load_folder(tmp_path / "torch", "torch").module
    exported(module, tmp_path / "made.onnx", open_batch=open_batch)
    config = json.loads((tmp_path / "torch" / "config.json").read_text())
    save_onnx(mine, CLASSES, (tmp_path / "made.onnx").read_bytes(), config)
    images = [put_image(store, seed) for seed in range(3)]
    for image, row in zip(images, rows(ask(engine, *images)), strict=True):
        expected = softmax(plain_logits(module, decode_image(store.get(image))))
        assert row == pytest.approx(expected, abs=1e-4)


def test_a_fixed_batch_graph_classifies_any_number_of_images(
    engine: ClassifiersEngine, store: BlobStore, mine: Path, tmp_path: Path
) -> None:
    save_onnx(mine, CLASSES, linear_graph(len(CLASSES), batch=4))
    save_onnx(tmp_path / "models" / "open", CLASSES)
    images = [put_image(store, seed) for seed in range(3)]
    free = ClassifyRequest(classifier="local:open", images=images, classes=list(CLASSES))
    for fixed, dynamic in zip(rows(ask(engine, *images)), rows(engine.classify(free)), strict=True):
        assert fixed == pytest.approx(dynamic, abs=FLOAT32)


def test_a_dynamic_graph_uses_the_described_size(
    engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    save_onnx(mine, CLASSES, linear_graph(len(CLASSES), batch=None, side="s"))
    assert sum(rows(ask(engine, put_image(store, 0)))[0]) == pytest.approx(1.0)


def test_a_graph_with_a_fixed_size_needs_no_described_size(
    engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    described = {key: value for key, value in DESCRIPTION["pretrained_cfg"].items() if key != "input_size"}
    save_onnx(mine, CLASSES, linear_graph(len(CLASSES)), {"pretrained_cfg": described})
    assert sum(rows(ask(engine, put_image(store, 0)))[0]) == pytest.approx(1.0)


def test_probability_outputs_are_used_unchanged(
    engine: ClassifiersEngine, store: BlobStore, mine: Path, tmp_path: Path
) -> None:
    save_onnx(mine, CLASSES, linear_graph(5, softmax=True), DESCRIPTION | {"output": "probabilities"})
    save_onnx(tmp_path / "models" / "logits", CLASSES)
    image = put_image(store, 0)
    request = ClassifyRequest(classifier="local:logits", images=[image], classes=list(CLASSES))
    assert rows(ask(engine, image))[0] == pytest.approx(rows(engine.classify(request))[0], abs=FLOAT32)


def test_the_revision_is_the_digest_of_the_file(
    engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    save_onnx(mine, CLASSES)
    found = ask(engine, put_image(store, 0)).model
    content = (mine / "model.onnx").read_bytes()
    assert (found.id, found.revision) == (SPEC, hashlib.sha256(content).hexdigest())


def test_other_weights_in_a_data_file_change_the_revision(
    engine: ClassifiersEngine, store: BlobStore, mine: Path, tmp_path: Path
) -> None:
    graph = outside(linear_graph(5), "weights.data")
    for folder, factor in ((mine, 1.0), (tmp_path / "models" / "other", 2.0)):
        save_onnx(folder, CLASSES, graph)
        (folder / "weights.data").write_bytes(WEIGHTS.tobytes() if factor == 1.0 else OTHER.tobytes())
    image = put_image(store, 0)
    first = ask(engine, image)
    request = ClassifyRequest(classifier="local:other", images=[image], classes=list(CLASSES))
    second = engine.classify(request)
    assert first.model.revision != second.model.revision
    assert rows(first) != rows(second)


def test_weights_are_read_from_a_data_file(
    engine: ClassifiersEngine, store: BlobStore, mine: Path, tmp_path: Path
) -> None:
    save_onnx(mine, CLASSES, outside(linear_graph(5), "weights.data"))
    (mine / "weights.data").write_bytes(WEIGHTS.tobytes())
    save_onnx(tmp_path / "models" / "whole", CLASSES)
    image = put_image(store, 0)
    request = ClassifyRequest(classifier="local:whole", images=[image], classes=list(CLASSES))
    assert rows(ask(engine, image)) == rows(engine.classify(request))


def test_an_onnx_classifier_is_listed_with_its_classes(engine: ClassifiersEngine, mine: Path) -> None:
    save_onnx(mine, CLASSES)
    (found,) = engine.list_classifiers().classifiers
    assert (found.spec, found.architecture, found.classes) == (SPEC, "onnx", list(CLASSES))


@pytest.mark.fault("B4")
def test_a_bad_image_does_not_affect_others(engine: ClassifiersEngine, store: BlobStore, mine: Path) -> None:
    save_onnx(mine, CLASSES)
    outcomes = ask(engine, put_image(store, 0), store.put(b"no image"), put_image(store, 2)).outcomes
    assert [code_of(one) for one in outcomes] == [None, "image-undecodable", None]


def test_non_finite_outputs_fail_only_their_image(
    engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    graph = linear_graph(5)
    # The square root of a negative mean is NaN; a light image has a positive mean.
    graph.graph.node.insert(1, helper.make_node("Sqrt", ["pooled"], ["root"]))
    graph.graph.node[2].input[0] = "root"
    save_onnx(mine, CLASSES, graph)
    light, dark = (store.put(encode_raw(np.full((32, 32, 3), value, dtype=np.uint8))) for value in (250, 10))
    assert [code_of(one) for one in ask(engine, light, dark).outcomes] == [None, "bad-backend-output"]


WEIGHTS = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
OTHER = WEIGHTS[::-1].copy()


def outside(model: onnx.ModelProto, location: str, **entries: str) -> onnx.ModelProto:
    """Move the weights to another file."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (
        {"location": location, "offset": "0", "length": str(WEIGHTS.nbytes)} | entries
    ).items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return model


def custom_operator() -> onnx.ModelProto:
    model = linear_graph(5)
    model.graph.node[1].domain = "evil.ops"
    model.opset_import.append(helper.make_opsetid("evil.ops", 1))
    return model


def custom_operator_in_a_branch() -> onnx.ModelProto:
    """The operator is only in one branch of an If."""
    model = linear_graph(5)
    branches = [
        helper.make_graph(
            [node], "branch", [], [helper.make_tensor_value_info("kept", TensorProto.FLOAT, None)]
        )
        for node in (
            helper.make_node("Identity", ["logits"], ["kept"]),
            helper.make_node("Shell", ["logits"], ["kept"], domain="evil.ops"),
        )
    ]
    truth = numpy_helper.from_array(np.array(True), "truth")
    model.graph.initializer.append(truth)
    model.graph.node.append(
        helper.make_node("If", ["truth"], ["chosen"], then_branch=branches[0], else_branch=branches[1])
    )
    model.graph.output[0].name = "chosen"
    model.opset_import.append(helper.make_opsetid("evil.ops", 1))
    return model


def two_inputs() -> onnx.ModelProto:
    model = linear_graph(5)
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1]))
    return model


def four_axes() -> onnx.ModelProto:
    model = linear_graph(5)
    del model.graph.node[1:]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("pooled", TensorProto.FLOAT, None))
    del model.graph.initializer[:]
    return model


def unknown_operator() -> onnx.ModelProto:
    model = linear_graph(5)
    model.graph.node[1].op_type = "Flattenn"
    return model


def declared_larger() -> onnx.ModelProto:
    model = linear_graph(5)
    model.graph.initializer[0].dims[:] = [3, 2**30]
    return model


def changed(**changes: object) -> dict[str, Any]:
    return {"pretrained_cfg": DESCRIPTION["pretrained_cfg"] | changes}


GRAPHS: dict[str, tuple[Callable[[], onnx.ModelProto | bytes], str]] = {
    "no onnx": (lambda: b"\x80\x02pickle", "not an ONNX file"),
    "empty": (lambda: b"", "cannot be loaded"),
    "torchscript": (lambda: b"PK\x03\x04" + bytes(64), "not an ONNX file"),
    "opset 99": (lambda: linear_graph(5, opset=99), "Opset 99"),
    "custom operator": (custom_operator, r"'evil\.ops\.Flatten'"),
    "custom operator in a branch": (custom_operator_in_a_branch, r"'evil\.ops\.Shell'"),
    "unknown operator": (unknown_operator, "cannot be loaded"),
    "data above": (lambda: outside(linear_graph(5), "../weights.data"), r"'\.\./weights\.data'"),
    "data absolute": (lambda: outside(linear_graph(5), "/etc/passwd"), "'/etc/passwd'"),
    "data below": (lambda: outside(linear_graph(5), "a/b"), "'a/b'"),
    "data in memory": (lambda: outside(linear_graph(5), "*/_ORT_MEM_ADDR_/*"), "_ORT_MEM_ADDR_"),
    "data nowhere": (lambda: outside(linear_graph(5), ""), "not a file of its folder"),
    "data missing": (lambda: outside(linear_graph(5), "absent.data"), "'absent.data'"),
    "data a link": (lambda: outside(linear_graph(5), "link.data"), "'link.data'.* outside its folder"),
    "data short": (lambda: outside(linear_graph(5), "weights.data", length="61"), "60 bytes"),
    "data beyond": (lambda: outside(linear_graph(5), "weights.data", offset="1"), "60 bytes"),
    "data before": (lambda: outside(linear_graph(5), "weights.data", offset="-1"), "60 bytes"),
    "data of no length": (lambda: outside(linear_graph(5), "weights.data", length=""), "60 bytes"),
    "larger than its data": (declared_larger, "cannot be loaded"),
    "two inputs": (two_inputs, "2 inputs"),
    "four channels": (lambda: linear_graph(5, element=TensorProto.DOUBLE), "double"),
    "an answer of four axes": (four_axes, r"\(3, 3, 1, 1\)"),
}  # fmt: skip


@pytest.mark.fault("B43")
@pytest.mark.parametrize("case", GRAPHS)
def test_a_file_that_is_not_a_plain_network_is_refused_by_name(
    case: str, engine: ClassifiersEngine, store: BlobStore, mine: Path, tmp_path: Path
) -> None:
    make, named = GRAPHS[case]
    save_onnx(mine, CLASSES, make())
    for place in (mine, mine.parent):
        (place / "weights.data").write_bytes(WEIGHTS.tobytes())
    (mine / "link.data").symlink_to(mine.parent / "weights.data")
    with pytest.raises(ModelFormatRefused, match=named) as refused:
        ask(engine, put_image(store, 0))
    assert SPEC in refused.value.detail
    assert str(tmp_path) not in refused.value.detail


DESCRIPTIONS: dict[str, tuple[object, str]] = {
    "nothing": ({}, "'mean' and 'std'"),
    "no mean": (changed(mean=None), "'mean' and 'std'"),
    "two means": (changed(mean=[0.5, 0.5]), "'mean' and 'std'"),
    "a mean that is none": (changed(mean=[0.5, 0.5, float("nan")]), "'mean' and 'std'"),
    "no spread": (changed(std=[0.5, 0.5, 0]), "'mean' and 'std'"),
    "another size": (changed(input_size=[3, 64, 64]), "input_size"),
    "no size": (changed(input_size=[3, SIDE]), "input_size"),
    "a size of millions": (changed(input_size=[3, 10**6, 10**6]), "input_size"),
    "unknown interpolation": (changed(interpolation="guess"), "preprocessing"),
    "a crop that is none": (changed(crop_pct="half"), "preprocessing"),
    "unknown output": (DESCRIPTION | {"output": "odds"}, "'odds'"),
    "no probabilities": (DESCRIPTION | {"output": "probabilities"}, "described as returning probabilities"),
    "a list": ([1], "config.json"),
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_a_mismatched_description_is_refused(
    case: str, engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    description, named = DESCRIPTIONS[case]
    save_onnx(mine, CLASSES, description=description)
    with pytest.raises(ModelFormatRefused, match=named):
        ask(engine, put_image(store, 0))


def test_a_dynamic_size_must_be_described(engine: ClassifiersEngine, store: BlobStore, mine: Path) -> None:
    graph = linear_graph(len(CLASSES), side="s")
    save_onnx(mine, CLASSES, graph, changed(input_size=None))
    with pytest.raises(ModelFormatRefused, match="input_size"):
        ask(engine, put_image(store, 0))


def test_a_head_that_differs_in_width_from_its_class_map_is_a_mismatch(
    engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    save_onnx(mine, CLASSES, linear_graph(3))
    with pytest.raises(ClassMapMismatch, match=r"returns 3 numbers.*names 5 classes"):
        ask(engine, put_image(store, 0))


def test_a_folder_with_both_kinds_of_weights_is_refused(
    engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    save_timm(mine, CLASSES)
    (mine / "model.onnx").write_bytes(linear_graph(5).SerializeToString())
    with pytest.raises(ModelFormatRefused, match="both"):
        ask(engine, put_image(store, 0))


@pytest.mark.fault("B43")
@pytest.mark.parametrize("large", ["model.onnx", "weights.data"])
def test_a_file_above_the_limit_is_refused_without_reading_it(
    large: str, engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    save_onnx(mine, CLASSES, outside(linear_graph(5), "weights.data"))
    (mine / "weights.data").write_bytes(WEIGHTS.tobytes())
    with (mine / large).open("r+b") as file:
        # A sparse file takes no space on the disk.
        file.truncate(onnx_file.LARGEST_BYTES + 1)
    with pytest.raises(ModelFormatRefused, match=f"{large}.*limit"):
        ask(engine, put_image(store, 0))


@pytest.mark.parametrize("missing", ["config.json", "class_map.json"])
def test_a_folder_without_a_description_or_class_map_is_refused(
    missing: str, engine: ClassifiersEngine, store: BlobStore, mine: Path
) -> None:
    save_onnx(mine, CLASSES)
    (mine / missing).unlink()
    with pytest.raises(CounterposeError, match=missing):
        ask(engine, put_image(store, 0))
