"""Descriptions of every kind of classifier a benchmark can name: timm zoo, CLIP and remote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
import timm

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifierDescription, DescribeRequest
from counterpose_core.errors import BackendUnavailable, ModelFormatRefused, UnknownModel
from counterpose_services.classifiers import timm_zoo
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from fakes.tiny_classifiers import CLASSES, SUITE
from fakes.tiny_models.timm import save_timm

URL = "http://models.test/v2/models/net"
METADATA: dict[str, Any] = {
    "name": "net",
    "platform": "onnxruntime_onnx",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 96, 64]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
}


def unfetched(repository: str) -> NoReturn:
    raise AssertionError(f"{repository!r} was fetched to be described")


def described(spec: str, root: Path, store: BlobStore, **options: Any) -> ClassifierDescription:
    settings, transport = ClassifierOptions(**options), options.pop("transport", None)
    registry = ClassifierRegistry(SUITE, root, store, settings, fetch=unfetched, transport=transport)
    return ClassifiersEngine(registry, cache_bytes=0).describe(DescribeRequest(classifier=spec))


def of_server(answer: httpx.Response | Exception, root: Path, store: BlobStore) -> ClassifierDescription:
    def handle(request: httpx.Request) -> httpx.Response:
        assert (request.method, str(request.url)) == ("GET", URL)
        if isinstance(answer, Exception):
            raise answer
        return answer

    transport = httpx.MockTransport(handle)
    return described(f"oip:{URL}", root, store, oip_hosts=("models.test",), transport=transport)


@pytest.mark.paper("DI-S6-zoo")
@pytest.mark.parametrize(
    "name", ["test_vit.r160_in1k", "test_resnet.r160_in1k", "test_convnext.r160_in1k", "test_efficientnet"]
)
def test_a_zoo_network_is_described_without_fetching_weights(name: str, root: Path, store: BlobStore) -> None:
    module = timm.create_model(name, pretrained=False)
    found = described(f"timm:{name}", root, store)
    assert (found.name, found.spec) == (f"timm:{name}", f"timm:{name}")
    assert found.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert (found.architecture, found.training) == (name.partition(".")[0], "r160_in1k")
    assert found.resolution == 160


def test_a_name_without_a_tag_uses_timm_s_default_tag(root: Path, store: BlobStore) -> None:
    found = described("timm:resnet50", root, store)
    # The name as timm's table of results has it.
    assert (found.architecture, found.training, found.resolution) == ("resnet50", "a1_in1k", 224)
    assert found.parameters == 25_557_032


def test_a_network_that_cannot_be_built_on_meta_tensors_has_no_size(
    root: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise ModelFormatRefused("it computes while it is built")

    timm_zoo._count_parameters.cache_clear()
    monkeypatch.setattr(timm_zoo, "create_network", refuse)
    found = described("timm:test_vit2", root, store)
    timm_zoo._count_parameters.cache_clear()
    assert (found.architecture, found.parameters) == ("test_vit2", None)


@pytest.mark.parametrize(
    "spec",
    ["timm:no_such", "timm:resnet50_clip", "clip:no-such", "local:no-such", "no-such", "gone", f"oip:{URL}"],
)
def test_a_missing_classifier_is_not_described(spec: str, root: Path, store: BlobStore) -> None:
    with pytest.raises(UnknownModel):
        described(spec, root, store)


def test_a_suite_without_the_zoo_does_not_describe_it(root: Path, store: BlobStore) -> None:
    suite = SUITE.model_copy(update={"allow_timm": False})
    with pytest.raises(UnknownModel, match="does not allow"):
        ClassifierRegistry(suite, root, store, ClassifierOptions()).describe_one("timm:test_vit")


def test_a_published_clip_is_described_from_its_folder(root: Path, store: BlobStore, tmp_path: Path) -> None:
    shutil.copytree(root / "clip", tmp_path / "open_clip" / "ViT-tiny")
    found, own = described("clip:ViT-tiny", tmp_path, store), described("zero-shot", root, store)
    assert own.parameters is not None
    assert found == own.model_copy(update={"name": "clip:ViT-tiny", "spec": "clip:ViT-tiny"})


def test_a_suite_classifier_and_a_folder_of_the_same_name_differ(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "resnet", CLASSES, architecture="test_convnext")
    mine = described("local:resnet", root, store, models_folder=tmp_path)
    own = described("resnet", root, store, models_folder=tmp_path)
    assert (mine.architecture, own.architecture) == ("test_convnext", "test_resnet")


def test_a_remote_classifier_is_described_only_by_its_metadata(root: Path, store: BlobStore) -> None:
    found = of_server(httpx.Response(200, json=METADATA), root, store)
    assert (found.resolution, found.description) == (64, "onnxruntime_onnx")
    assert (found.architecture, found.parameters, found.training, found.classes) == ("", None, "", None)
    given = {"architecture": "resnet50", "parameters": 25, "training": "ours", "labels": ["sea", "boat"]}
    found = of_server(httpx.Response(200, json=METADATA | {"parameters": given}), root, store)
    assert (found.architecture, found.parameters, found.training) == ("resnet50", 25, "ours")
    assert found.classes == ["sea", "boat"]


@pytest.mark.parametrize("count", [0, -1, True, "25", 2.5, None])
def test_an_invalid_parameter_count_is_left_empty(count: object, root: Path, store: BlobStore) -> None:
    given = {"architecture": 7, "parameters": count, "training": ["a"]}
    found = of_server(httpx.Response(200, json=METADATA | {"parameters": given}), root, store)
    assert (found.architecture, found.parameters, found.training) == ("", None, "")


def test_unencodable_text_is_repaired(root: Path, store: BlobStore, tmp_path: Path) -> None:
    save_timm(tmp_path / "mine", CLASSES)
    file = tmp_path / "mine" / "config.json"
    half = {"architecture": "half \ud800" + "x" * 200, "pretrained_cfg": {"tag": "\udc00"}}
    file.write_text(json.dumps(json.loads(file.read_text()) | half))
    found = described("local:mine", root, store, models_folder=tmp_path)
    assert (found.architecture, found.training) == (("half ?" + "x" * 200)[:100], "?")
    assert json.loads(found.model_dump_json())["training"] == "?"


def test_an_unreachable_server_is_an_error(root: Path, store: BlobStore) -> None:
    with pytest.raises(BackendUnavailable):
        of_server(httpx.ConnectError("refused"), root, store)
