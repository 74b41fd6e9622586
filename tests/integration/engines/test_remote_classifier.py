"""A remote classifier behind a mock transport: what it is sent, and which answers are accepted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    CounterposeError,
    DeadlineExceeded,
    UnknownModel,
)
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from counterpose_services.classifiers.remote import require_allowed

URL = "http://models.test:9000/v2/models/net"
SIDE = 8
LABELS = ["sea", "boat", "tram"]
METADATA: dict[str, Any] = {
    "name": "net",
    "versions": ["1"],
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, SIDE, SIDE]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3], "parameters": {"labels": LABELS}}],
}
HOSTS = ("models.test:9000",)
Infer = Callable[[dict[str, Any]], httpx.Response]


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def put_image(store: BlobStore, seed: int = 0) -> str:
    return store.put(encode_raw(np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)))


def remote(
    store: BlobStore,
    infer: Infer,
    metadata: object = METADATA,
    hosts: tuple[str, ...] = ("models.test:9000",),
    answer_bytes: int = 100_000,
) -> ClassifiersEngine:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=metadata)
        assert str(request.url) == f"{URL}/infer"
        return infer(json.loads(request.content))

    options = ClassifierOptions(oip_hosts=hosts, oip_answer_bytes=answer_bytes)
    transport = httpx.MockTransport(handle)
    registry = ClassifierRegistry(ClassifiersSuite(), Path("nowhere"), store, options, transport=transport)
    return ClassifiersEngine(registry, cache_bytes=0)


def ask(engine: ClassifiersEngine, images: list[str], *classes: str) -> list[Outcome[Prediction]]:
    request = ClassifyRequest(classifier=f"oip:{URL}", images=images, classes=list(classes))
    return engine.classify(request).outcomes


def rows(data: list[Any], shape: list[int], datatype: str = "FP32") -> httpx.Response:
    output = {"name": "y", "datatype": datatype, "shape": shape, "data": data}
    return httpx.Response(200, json={"outputs": [output]})


def code_of(outcome: Outcome[Any]) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


@pytest.mark.paper("LANCE-S3-blackbox")
def test_a_remote_model_gets_a_normalised_batch_and_its_labels_are_used(store: BlobStore) -> None:
    seen: list[dict[str, Any]] = []

    def infer(body: dict[str, Any]) -> httpx.Response:
        seen.append(body["inputs"][0])
        return rows([0.5, 0.2, 0.3, 0.1, 0.8, 0.1], [2, 3])

    found = ask(remote(store, infer), [put_image(store, 0), put_image(store, 1)], "boat", "sea")
    assert found[0].unwrap().probabilities == pytest.approx([0.2, 0.5])
    assert found[1].unwrap().probabilities == pytest.approx([0.8, 0.1])
    assert seen[0]["shape"] == [2, 3, SIDE, SIDE]
    assert len(seen[0]["data"]) == 2 * 3 * SIDE * SIDE
    assert min(seen[0]["data"]) < 0 < max(seen[0]["data"])


def test_a_channels_last_uint8_model_gets_unnormalised_pixels(store: BlobStore) -> None:
    seen: list[dict[str, Any]] = []

    def infer(body: dict[str, Any]) -> httpx.Response:
        seen.append(body["inputs"][0])
        return rows([0.5, 0.2, 0.3], [1, 3])

    inputs = [{"name": "x", "datatype": "UINT8", "shape": [-1, SIDE, SIDE, 3]}]
    ask(remote(store, infer, METADATA | {"inputs": inputs}), [put_image(store)], "sea")
    assert seen[0]["shape"] == [1, SIDE, SIDE, 3]
    assert all(isinstance(value, int) and 0 <= value <= 255 for value in seen[0]["data"])


def test_a_model_that_takes_any_size_gets_each_image_as_it_is(store: BlobStore) -> None:
    seen: list[list[int]] = []

    def infer(body: dict[str, Any]) -> httpx.Response:
        seen.append(body["inputs"][0]["shape"])
        n = body["inputs"][0]["shape"][0]
        return rows([0.5, 0.2, 0.3] * n, [n, 3])

    wide = store.put(encode_raw(np.zeros((4, 2048, 3), dtype=np.uint8)))
    inputs = [{"name": "x", "datatype": "UINT8", "shape": [-1, -1, -1, 3]}]
    found = ask(
        remote(store, infer, METADATA | {"inputs": inputs}),
        [put_image(store), wide, put_image(store, 1)],
        "sea",
    )
    assert [outcome.unwrap().probabilities for outcome in found] == [pytest.approx([0.5])] * 3
    assert seen == [[2, 12, 16, 3], [1, 2, 1024, 3]]


def test_remote_logits_become_probabilities(store: BlobStore) -> None:
    (found,) = ask(remote(store, lambda _: rows([[0.0, 2.0, -1.0]], [1, 3])), [put_image(store)], *LABELS)
    assert sum(found.unwrap().probabilities) == pytest.approx(1.0)
    assert found.unwrap().top == [1, 0, 2]


def test_a_remote_model_without_labels_must_match_the_class_count(store: BlobStore) -> None:
    bare = METADATA | {"outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]}
    engine = remote(store, lambda _: rows([0.5, 0.2, 0.3], [1, 3]), bare)
    (found,) = ask(engine, [put_image(store)], "a", "b", "c")
    assert found.unwrap().probabilities == pytest.approx([0.5, 0.2, 0.3])
    (short,) = ask(engine, [put_image(store)], "a", "b")
    assert code_of(short) == "class-map-mismatch"


@pytest.mark.fault("B4")
def test_a_bad_image_is_not_sent(store: BlobStore) -> None:
    engine = remote(store, lambda _: rows([0.5, 0.2, 0.3], [1, 3]))
    outcomes = ask(engine, [store.put(b"no image"), put_image(store)], "sea")
    assert [code_of(one) for one in outcomes] == ["image-undecodable", None]


@pytest.mark.fault("B23", "F12")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (rows([0.5, 0.5], [1, 3]), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [3, 1]), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [3]), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [1, 1, 3]), BadBackendOutput),
        (rows([], [1, 0]), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [1, -3]), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [-1, -3]), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [1, 2**31]), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [2**31, 2**33]), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [1, 2**80]), BadBackendOutput),
        (rows([2, 0, 1], [1, 3], "INT64"), BadBackendOutput),
        (rows([True, False, False], [1, 3], "BOOL"), BadBackendOutput),
        (rows(["sea", "boat", "tram"], [1, 3], "BYTES"), BadBackendOutput),
        (rows([0.5, 0.2, 0.3], [1, 3], "float"), BadBackendOutput),
        (rows([[0.5], [0.2, 0.3]], [1, 3]), BadBackendOutput),
        (rows([10**400, 0.2, 0.3], [1, 3]), BadBackendOutput),
        (httpx.Response(200, json={"outputs": []}), BadBackendOutput),
        (rows(["a", "b", "c"], [1, 3]), BadBackendOutput),
        (httpx.Response(200, text="<html>"), BadBackendOutput),
        (httpx.Response(302, headers={"location": "http://169.254.169.254/"}), BadBackendOutput),
        (httpx.Response(404), BadBackendOutput),
        (httpx.Response(503), BackendUnavailable),
    ],
)
def test_invalid_and_failed_remote_answers_raise_their_own_errors(
    answer: httpx.Response, error: type[CounterposeError], store: BlobStore
) -> None:
    with pytest.raises(error):
        ask(remote(store, lambda _: answer), [put_image(store)], "sea")


@pytest.mark.parametrize(
    ("failure", "error"),
    [(httpx.ReadTimeout("late"), DeadlineExceeded), (httpx.ConnectError("refused"), BackendUnavailable)],
)
def test_an_unreachable_remote_model_is_a_failed_service(
    failure: httpx.HTTPError, error: type[CounterposeError], store: BlobStore
) -> None:
    def infer(_: dict[str, Any]) -> httpx.Response:
        raise failure

    with pytest.raises(error):
        ask(remote(store, infer), [put_image(store)], "sea")


@pytest.mark.fault("B23")
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e39", "null"])
def test_non_finite_remote_outputs_are_not_predictions(number: str, store: BlobStore) -> None:
    content = f'{{"outputs": [{{"name": "y", "shape": [1, 3], "data": [{number}, 0.1, 0.2]}}]}}'
    (outcome,) = ask(remote(store, lambda _: httpx.Response(200, text=content)), [put_image(store)], "sea")
    assert code_of(outcome) == "bad-backend-output"


@pytest.mark.fault("B23")
def test_a_nan_answer_fails_only_its_image(store: BlobStore) -> None:
    content = '{"outputs": [{"name": "y", "shape": [2, 3], "data": [0.5, 0.2, 0.3, NaN, 0.1, 0.2]}]}'
    engine = remote(store, lambda _: httpx.Response(200, text=content))
    outcomes = ask(engine, [put_image(store, 0), put_image(store, 1)], "sea")
    assert [code_of(one) for one in outcomes] == [None, "bad-backend-output"]


def test_a_server_error_fails_only_its_image_and_keeps_the_message(store: BlobStore) -> None:
    data = [0.5, 0.2, 0.3, None, None, None]
    output = {"name": "y", "shape": [2, 3], "data": data, "parameters": {"errors": {"1": "ValueError: dark"}}}
    engine = remote(store, lambda _: httpx.Response(200, json={"outputs": [output]}))
    fine, failed = ask(engine, [put_image(store, 0), put_image(store, 1)], "sea")
    assert fine.unwrap().probabilities == pytest.approx([0.5])
    assert failed.problem is not None
    assert failed.problem.code == "bad-backend-output"
    assert failed.problem.detail.endswith("failed on this image: ValueError: dark")


@pytest.mark.parametrize("errors", [["1"], {"0": 7}, "dark", {"0": "x" * 10_000}])
def test_malformed_or_long_server_errors_give_short_messages(errors: object, store: BlobStore) -> None:
    output = {"name": "y", "shape": [1, 3], "data": [0.5, 0.2, 0.3], "parameters": {"errors": errors}}
    (found,) = ask(
        remote(store, lambda _: httpx.Response(200, json={"outputs": [output]})), [put_image(store)], "sea"
    )
    assert found.problem is None or len(found.problem.detail) < 500


@pytest.mark.parametrize("width", [2, 4])
def test_outputs_that_do_not_match_the_labels_are_not_predictions(width: int, store: BlobStore) -> None:
    engine = remote(store, lambda _: rows([1.0 / width] * width, [1, width]))
    (outcome,) = ask(engine, [put_image(store)], "sea")
    assert code_of(outcome) == "bad-backend-output"


def test_an_endless_answer_is_cut_off(store: BlobStore) -> None:
    engine = remote(store, lambda _: rows([0.5] * 1000, [1, 1000]), answer_bytes=600)
    limit = r"more than 600 bytes \(COUNTERPOSE_SERVICES_OIP_ANSWER_BYTES\)"
    with pytest.raises(BadBackendOutput, match=limit):
        ask(engine, [put_image(store)], "sea")


@pytest.mark.fault("B48", "T8")
@pytest.mark.parametrize(
    "spec",
    [
        f"oip:{URL.rpartition('/')[0]}",
        "oip:http://models.test:9000/",
        "oip:http://models.test:9000/v2/models/../repository/index",
        "oip:http://models.test:9000/v2/repository/models/net/unload",
        "oip:http://models.test:9000/v2/models/net/infer/more",
    ],
)
def test_only_models_on_allowed_hosts_are_called(spec: str, store: BlobStore) -> None:
    engine = remote(store, lambda _: rows([0.5, 0.2, 0.3], [1, 3]))
    request = ClassifyRequest(classifier=spec, images=[put_image(store)], classes=["sea"])
    with pytest.raises(UnknownModel, match="does not name a model"):
        engine.classify(request)


@pytest.mark.parametrize("path", ["/v2/models/net", "/v2/models/net/", "/a/b/v2/models/net/versions/1"])
def test_models_are_allowed_under_any_prefix_and_version(path: str) -> None:
    require_allowed(f"http://models.test{path}", ["models.test"])


def test_an_invalid_address_is_an_unreachable_service(store: BlobStore) -> None:
    engine = remote(store, lambda _: rows([0.5, 0.2, 0.3], [1, 3]), hosts=("models.test",))
    request = ClassifyRequest(
        classifier="oip:http://models.test:port/v2/models/net", images=[put_image(store)], classes=["sea"]
    )
    with pytest.raises(BackendUnavailable):
        engine.classify(request)


@pytest.mark.fault("B23")
@pytest.mark.parametrize(
    "change",
    [
        {"inputs": []},
        {"inputs": METADATA["inputs"] * 2},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, -1, -1]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 100_000, 100_000]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 2**31, 2**31]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, -SIDE, -SIDE]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 1, SIDE, SIDE]}]},
        {"inputs": [{"name": "x", "datatype": "INT64", "shape": [-1, 3, SIDE, SIDE]}]},
        {"outputs": []},
        {"name": None},
    ],
)
def test_metadata_that_do_not_describe_a_classifier_are_refused(
    change: dict[str, Any], store: BlobStore
) -> None:
    with pytest.raises(BadBackendOutput):
        ask(remote(store, lambda _: rows([], []), METADATA | change), [put_image(store)], "sea")


def test_a_remote_model_without_image_input_is_refused(store: BlobStore) -> None:
    text = METADATA | {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1]}]}
    with pytest.raises(BadBackendOutput, match="not a batch of images"):
        ask(remote(store, lambda _: rows([], [0, 3]), text), [put_image(store)], "sea")


@pytest.mark.fault("B48", "T8")
@pytest.mark.parametrize("hosts", [(), ("models.test:1",), ("other.test",)])
def test_only_listed_hosts_are_allowed(hosts: tuple[str, ...], store: BlobStore) -> None:
    with pytest.raises(UnknownModel, match="not allowed for remote"):
        ask(remote(store, lambda _: rows([], []), hosts=hosts), [put_image(store)], "sea")


def test_a_listed_host_without_a_port_allows_every_port(store: BlobStore) -> None:
    engine = remote(store, lambda _: rows([0.5, 0.2, 0.3], [1, 3]), hosts=("models.test",))
    assert ask(engine, [put_image(store)], "sea")[0].unwrap().probabilities == pytest.approx([0.5])
