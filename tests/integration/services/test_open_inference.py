"""Classifiers and scorer by the Open Inference Protocol: their own HTTP applications over tiny networks."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import numpy.typing as npt
import pytest
from open_inference.openapi.client import OpenInferenceClient
from open_inference.openapi.core.api_error import ApiError
from open_inference.openapi.types import InferenceRequest
from starlette.testclient import TestClient

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import SECRET_HEADER
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
)
from counterpose_core.images.codecs import encode_png, encode_raw
from counterpose_core.suite import ScorerSuite
from counterpose_services.classifiers.deployment import ClassifiersDeployment
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.open_inference import OpenInference
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.remote import RemoteClassifier
from counterpose_services.open_inference.requests import LENGTH_HEADER
from counterpose_services.scorer.deployment import ScorerDeployment
from counterpose_services.scorer.engine import ScorerEngine
from counterpose_services.settings import ServiceSettings
from fakes.engines import FakeClassifiers
from fakes.tiny_classifiers import CLASSES, SUITE, save_suite
from fakes.tiny_models.bert import save_masked_lm, save_sentence_encoder

SECRET = "a secret of many characters"
BASE = "http://testserver"
INFER = "/v2/models/resnet/infer"
Pixels = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    save_suite(folder)
    save_sentence_encoder(folder / "sentence")
    save_masked_lm(folder / "masked-lm")
    return folder


@pytest.fixture(scope="module")
def store(root: Path) -> BlobStore:
    return BlobStore(str(root / "store"))


@pytest.fixture(scope="module")
def classifiers(root: Path, store: BlobStore) -> Iterator[TestClient]:
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions())
    service = ClassifiersDeployment(settings(store), engine=engine)
    with TestClient(service.__serve_build_asgi_app__(), headers={SECRET_HEADER: SECRET}) as client:
        yield client


@pytest.fixture(scope="module")
def scorer(root: Path, store: BlobStore) -> Iterator[TestClient]:
    suite = ScorerSuite(clip="clip", sentence="sentence", masked_lm="masked-lm", batch=3)
    service = ScorerDeployment(settings(store), engine=ScorerEngine.load(suite, root, store))
    with TestClient(service.__serve_build_asgi_app__(), headers={SECRET_HEADER: SECRET}) as client:
        yield client


def as_client(client: Any) -> httpx.Client:
    """Return the application's client: it has httpx's methods, and says nothing of its type."""
    return cast("httpx.Client", client)


def settings(store: BlobStore) -> ServiceSettings:
    return ServiceSettings.model_validate({"secret": SECRET, "batch_wait_s": 0.0, "store_url": store.root})


def images(*sizes: tuple[int, int]) -> list[Pixels]:
    draws = np.random.default_rng(0)
    return [draws.integers(0, 256, (height, width, 3), dtype=np.uint8) for height, width in sizes]


def tensor(data: object = None, **changes: object) -> dict[str, Any]:
    return {"name": "images", "datatype": "UINT8", "shape": [1, 2, 2, 3], "data": data} | changes


def own_answer(client: TestClient, store: BlobStore, given: list[Pixels]) -> npt.NDArray[np.float32]:
    """The probabilities by the service's own endpoint."""
    refs = [store.put(encode_raw(pixels)) for pixels in given]
    body = {"classifier": "resnet", "images": refs, "classes": list(CLASSES)}
    outcomes = client.post("/v1/classify", json=body).json()["outcomes"]
    return np.array([one["value"]["probabilities"] for one in outcomes], dtype=np.float32)


def test_our_own_consumer_gets_what_the_service_s_own_endpoint_answers(
    classifiers: TestClient, store: BlobStore
) -> None:
    given = images((42, 48), (64, 30), (42, 48))
    remote = OpenInference(f"{BASE}/v2/models/resnet", as_client(classifiers))
    model = RemoteClassifier(remote, "oip:resnet", label_map={}, store=store, batch=8)
    found = model.predict([store.put(encode_raw(pixels)) for pixels in given]).outcomes
    over = model.over(CLASSES)
    rows = np.array([over(outcome.unwrap()) for outcome in found])
    assert remote.resolution is None
    assert rows == pytest.approx(own_answer(classifiers, store, given), abs=1e-6)


def test_another_project_s_client_reads_metadata_and_predictions(
    classifiers: TestClient, store: BlobStore
) -> None:
    other = OpenInferenceClient(base_url=BASE, httpx_client=as_client(classifiers))
    other.check_server_liveness()
    other.check_server_readiness()
    other.check_model_readiness("resnet")
    assert other.read_server_metadata().extensions == ["binary_tensor_data"]
    metadata: Any = other.read_model_metadata("resnet")
    assert [spec.name for spec in metadata.inputs] == ["images"]
    assert list(metadata.outputs[0].shape) == [-1, len(CLASSES)]
    given = images((20, 20), (20, 20))
    data = np.stack(given)
    request = InferenceRequest.parse_obj(
        {"id": "7", "inputs": [tensor(data.ravel().tolist(), shape=list(data.shape))]}
    )
    answer: Any = other.model_infer("resnet", request=request)
    odds, labels = answer.outputs
    expected = own_answer(classifiers, store, given)
    assert answer.id == "7"
    assert np.reshape(odds.data.__root__, odds.shape) == pytest.approx(expected, abs=1e-6)
    assert list(labels.data.__root__) == [CLASSES[index] for index in expected.argmax(1)]
    with pytest.raises(ApiError, match="no classifier 'nowhere'"):
        other.read_model_metadata("nowhere")


def test_images_come_nested_as_files_or_as_binary_tensors(classifiers: TestClient, store: BlobStore) -> None:
    given = images((20, 24), (20, 24))
    data, expected = np.stack(given), own_answer(classifiers, store, given)
    nested = {"inputs": [tensor(data.tolist(), shape=list(data.shape))]}
    files = [encode_png(pixels) for pixels in given]
    encoded = [base64.b64encode(file).decode() for file in files]
    as_files = {"inputs": [tensor(encoded, datatype="BYTES", shape=[2])]}
    for body in (nested, as_files):
        odds = classifiers.post(INFER, json=body).json()["outputs"][0]
        assert np.reshape(odds["data"], odds["shape"]) == pytest.approx(expected, abs=1e-6)
    raw = b"".join(struct.pack("<I", len(file)) + file for file in files)
    for content, changes in (
        (data.tobytes(), {"shape": list(data.shape)}),
        (raw, {"datatype": "BYTES", "shape": [2]}),
    ):
        answer = binary(classifiers, content, **changes)
        told = json.loads(answer.content[: int(answer.headers[LENGTH_HEADER])])
        numbers = answer.content[int(answer.headers[LENGTH_HEADER]) :]
        assert [one["name"] for one in told["outputs"]] == ["probabilities"]
        assert np.frombuffer(numbers, "<f4").reshape(2, -1) == pytest.approx(expected, abs=1e-6)


def binary(client: TestClient, content: bytes, **changes: object) -> Any:
    """Ask for binary probabilities with one binary tensor."""
    sent = tensor(parameters={"binary_data_size": len(content)}, **changes)
    del sent["data"]
    wanted = {"name": "probabilities", "parameters": {"binary_data": True}}
    head = json.dumps({"inputs": [sent], "outputs": [wanted]}).encode()
    return client.post(INFER, content=head + content, headers={LENGTH_HEADER: str(len(head))})


def test_the_scorer_compares_images_with_texts_and_with_each_other(
    scorer: TestClient, store: BlobStore
) -> None:
    given, texts = images((30, 30), (30, 30)), ["a boat", "a tram", "the sea"]
    data = np.stack(given)
    body = {
        "inputs": [
            tensor(data.ravel().tolist(), shape=list(data.shape)),
            {"name": "texts", "datatype": "BYTES", "shape": [3], "data": texts},
        ]
    }
    found = {one["name"]: one for one in scorer.post("/v2/models/clip/infer", json=body).json()["outputs"]}
    refs = [store.put(encode_raw(pixels)) for pixels in given]
    item = {"original": refs[0], "edited": refs[1], "caption": texts[0], "edited_caption": texts[1]}
    scores = scorer.post("/v1/score", json={"items": [item]}).json()["outcomes"][0]["value"]
    image_text = np.reshape(found["image_text"]["data"], (2, 3))
    image_image = np.reshape(found["image_image"]["data"], (2, 2))
    assert image_text[0, 0] == pytest.approx(scores["text_original"], abs=1e-5)
    assert image_text[1, 1] == pytest.approx(scores["text_edited"], abs=1e-5)
    assert image_image[0, 1] == pytest.approx(scores["image_image"], abs=1e-5)
    assert np.diag(image_image) == pytest.approx(1.0, abs=1e-5)


class Recorder(FakeClassifiers):
    """Knows one classifier of two classes, and records how many images each call has."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def describe(self, request: DescribeRequest) -> ClassifierDescription:
        return super().describe(request).model_copy(update={"classes": ["boat", "tram"]})

    def list_classifiers(self) -> ClassifierList:
        return ClassifierList(classifiers=[])

    def classify_head(self, spec: str, images: Sequence[str]) -> ClassifyResponse:
        self.calls.append(len(images))
        asked = ClassifyRequest(classifier=spec, images=list(images), classes=["boat", "tram"])
        return self.classify(asked)


def test_requests_that_come_together_share_a_batch(store: BlobStore) -> None:
    engine = Recorder()
    waiting = settings(store).model_copy(update={"batch_wait_s": 0.3})
    app = ClassifiersDeployment(waiting, engine=engine).__serve_build_asgi_app__()
    with (
        TestClient(app, headers={SECRET_HEADER: SECRET}) as client,
        ThreadPoolExecutor(3) as threads,
    ):
        body = {"inputs": [tensor([0] * 24, shape=[2, 2, 2, 3])]}
        answers = list(threads.map(lambda _: client.post("/v2/models/sure/infer", json=body), range(3)))
    assert [answer.json()["outputs"][1]["data"] for answer in answers] == [["boat", "boat"]] * 3
    assert sum(engine.calls) == 6
    assert len(engine.calls) < 3


GOOD = [0] * 12
BAD: dict[str, tuple[object, str]] = {
    "no inputs": ({"inputs": []}, "inputs"),
    "another input": ({"inputs": [tensor(GOOD, name="pixels")]}, "'pixels'"),
    "the input twice": ({"inputs": [tensor(GOOD), tensor(GOOD)]}, "twice"),
    "floats": ({"inputs": [tensor([0.0] * 12, datatype="FP32")]}, "'FP32'"),
    "another layout": ({"inputs": [tensor(GOOD, shape=[1, 3, 2, 2])]}, "[1, 3, 2, 2]"),
    "a negative size": ({"inputs": [tensor(GOOD, shape=[-1, 2, 2, 3])]}, "[-1, 2, 2, 3]"),
    "a huge size": ({"inputs": [tensor(GOOD, shape=[1, 99999, 99999, 3])]}, "99999 x 99999"),
    "too many images": ({"inputs": [tensor(GOOD, shape=[65, 2, 2, 3])]}, "N from 1 to 64"),
    "too few numbers": ({"inputs": [tensor(GOOD[1:])]}, "11 values"),
    "other nesting": ({"inputs": [tensor([[GOOD], [GOOD]])]}, "2 rows"),
    "a number above 255": ({"inputs": [tensor([*GOOD[1:], 256])]}, "256"),
    "a fraction": ({"inputs": [tensor([*GOOD[1:], 0.5])]}, "0.5"),
    "an infinity": ("NUMBER", "inf"),
    "NaN": ("NAN", "NaN"),
    "no data": ({"inputs": [tensor()]}, "no data"),
    "no image file": ({"inputs": [tensor(["aGVsbG8="], datatype="BYTES", shape=[1])]}, "value 0"),
    "no Base64": ({"inputs": [tensor(["%"], datatype="BYTES", shape=[1])]}, "Base64"),
    "an unknown output": ({"inputs": [tensor(GOOD)], "outputs": [{"name": "logits"}]}, "'logits'"),
    "another extension": (
        {"inputs": [tensor(GOOD, parameters={"shared_memory_region": "x"})]},
        "'shared_memory_region'",
    ),
    "bytes that are not there": ({"inputs": [tensor(None, parameters={"binary_data_size": 12})]}, "12"),
}


@pytest.mark.fault("B23")
@pytest.mark.parametrize("case", BAD)
def test_a_bad_tensor_is_refused_by_name(classifiers: TestClient, case: str) -> None:
    body, named = BAD[case]
    content = json.dumps(body)
    if body in ("NUMBER", "NAN"):
        sent = json.dumps({"inputs": [tensor([*GOOD[1:], "X"])]})
        content = sent.replace('"X"', "1e999" if body == "NUMBER" else "NaN")
    answer = classifiers.post(INFER, content=content)
    assert answer.status_code in (413, 415, 422)
    assert named in answer.json()["error"]
    assert answer.json()["code"] in ("invalid-request", "image-too-large", "image-undecodable")


@pytest.mark.fault("B41")
@pytest.mark.parametrize(
    "name", ["nowhere", "..%2f..%2fetc%2fpasswd", "file:%2f%2fx", "zero-shot", "a%00b", "x" * 300]
)
def test_a_model_that_is_not_served_is_refused_by_name(classifiers: TestClient, name: str) -> None:
    for path in ("", "/ready"):
        answer = classifiers.get(f"/v2/models/{name}{path}")
        assert answer.status_code == 404
        assert answer.json()["code"] == "unknown-model"
        assert answer.json()["error"] == answer.json()["detail"]


def test_refusals_of_guard_and_router_have_the_protocol_s_form_too(classifiers: TestClient) -> None:
    wrong = classifiers.get("/v2/models/resnet", headers={SECRET_HEADER: "wrong"})
    assert (wrong.status_code, wrong.json()["code"]) == (401, "unauthorized")
    nothing = classifiers.get("/v2/nothing")
    assert nothing.status_code == 404
    late = classifiers.get("/v2/models/resnet", headers={"x-counterpose-deadline-seconds": "-1"})
    assert late.status_code == 504
    for answer in (wrong, nothing, late):
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["error"] == answer.json()["detail"]
    assert classifiers.get("/v2/health/ready", headers={SECRET_HEADER: ""}).json() == {"ready": True}


def test_a_body_that_is_too_large_or_compressed_is_refused(
    classifiers: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpose_services.open_inference.routes.MOST_BYTES", 1000)
    answer = classifiers.post(INFER, content=b" " * 1001)
    assert "1000 bytes" in answer.json()["error"]
    answer = classifiers.post(INFER, content=b"{}", headers={"content-encoding": "gzip"})
    assert answer.status_code == 415
    assert "'gzip'" in answer.json()["error"]
