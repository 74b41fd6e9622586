"""Remote servers of a fixed batch get it, their own words are told, and scores that are none are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.errors import BackendUnavailable, BadBackendOutput, CounterposeError
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry

HOST, SIDE, CLASSES = "models.test:9000", 8, ("sea", "boat", "tram")
SPEC = f"oip:http://{HOST}/v2/models/net"


class Server:
    """A model whose metadata give ``batch``; it refuses any other, and answers by the mean of each image."""

    def __init__(self, batch: int, *, answer: Any = None, **parameters: object) -> None:
        self.batch, self.answer, self.parameters = batch, answer, parameters
        self.shapes: list[list[int]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            shape = [self.batch, 3, SIDE, SIDE]
            return httpx.Response(
                200,
                json={
                    "name": "net",
                    "inputs": [{"name": "x", "datatype": "FP32", "shape": shape}],
                    "outputs": [{"name": "y", "datatype": "FP32", "shape": [self.batch, 3]}],
                    "parameters": self.parameters,
                },
            )
        tensor = json.loads(request.content)["inputs"][0]
        self.shapes.append(tensor["shape"])
        if self.batch not in (-1, tensor["shape"][0]):
            return httpx.Response(400, json={"error": f"expected batch {self.batch}, got {tensor['shape']}"})
        if isinstance(self.answer, httpx.Response):
            return self.answer
        means = np.array(tensor["data"]).reshape(*tensor["shape"]).mean(axis=(2, 3))
        rows = self.answer(means) if self.answer else np.exp(means) / np.exp(means).sum(axis=1, keepdims=True)
        data = {"name": "y", "datatype": "FP32", "shape": list(rows.shape), "data": rows.ravel().tolist()}
        return httpx.Response(200, json={"outputs": [data]})


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def ask(
    store: BlobStore, server: Server, n: int = 5, classes: tuple[str, ...] = CLASSES
) -> list[Outcome[Prediction]]:
    options = ClassifierOptions(oip_hosts=(HOST,))
    registry = ClassifierRegistry(
        ClassifiersSuite(), Path("nowhere"), store, options, transport=httpx.MockTransport(server)
    )
    drawn = np.random.default_rng(0)
    images = [store.put(encode_raw(drawn.integers(0, 256, (9, 9, 3), np.uint8))) for _ in range(n)]
    request = ClassifyRequest(classifier=SPEC, images=images, classes=list(classes))
    return ClassifiersEngine(registry, cache_bytes=0).classify(request).outcomes


@pytest.mark.parametrize(("batch", "sent"), [(1, [1] * 5), (2, [2] * 3), (4, [4] * 2), (8, [8]), (-1, [5])])
def test_a_server_gets_the_batch_that_its_metadata_name(
    batch: int, sent: list[int], store: BlobStore
) -> None:
    server = Server(batch)
    found = [one.unwrap().probabilities for one in ask(store, server)]
    assert [shape[0] for shape in server.shapes] == sent
    free = [one.unwrap().probabilities for one in ask(store, Server(-1))]
    assert np.allclose(found, free, atol=1e-6)


WORDS = "unexpected shape for input 'x': expected [1,3,8,8]"


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (httpx.Response(400, json={"error": WORDS}), BadBackendOutput, f"status 400, not 200: {WORDS}"),
        (
            httpx.Response(422, json={"detail": [{"msg": "bad"}]}),
            BadBackendOutput,
            "not 200: [{'msg': 'bad'}]",
        ),
        (
            httpx.Response(404, json={"message": "no model"}),
            BadBackendOutput,
            "status 404, not 200: no model",
        ),
        (httpx.Response(400, text="too\n  large"), BadBackendOutput, "status 400, not 200: too large"),
        (
            httpx.Response(503, json={"error": "out of memory"}),
            BackendUnavailable,
            "status 503: out of memory",
        ),
        (httpx.Response(400, json={"error": "x" * 5000}), BadBackendOutput, f"not 200: {'x' * 300}"),
        (httpx.Response(400), BadBackendOutput, "status 400, not 200"),
        (httpx.Response(400, html="<html>no</html>"), BadBackendOutput, "status 400, not 200"),
        (httpx.Response(400, content=b"\x00\xff"), BadBackendOutput, "status 400, not 200"),
        (httpx.Response(400, json=[1]), BadBackendOutput, "status 400, not 200: [1]"),
    ],
)
def test_a_server_s_own_words_are_told(
    answer: httpx.Response, error: type[CounterposeError], told: str, store: BlobStore
) -> None:
    with pytest.raises(error) as refused:
        [outcome.unwrap() for outcome in ask(store, Server(-1, answer=answer), n=1)]
    assert refused.value.detail.endswith(told)


def sigmoids(means: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(1.0 / (1.0 + np.exp(-means)))


def test_sigmoids_of_a_server_are_refused(store: BlobStore) -> None:
    with pytest.raises(
        BadBackendOutput, match="between 0 and 1 that do not add up to 1, as those of a sigmoid"
    ):
        [outcome.unwrap() for outcome in ask(store, Server(-1, answer=sigmoids))]


def test_logits_between_0_and_1_that_are_declared_are_read(store: BlobStore) -> None:
    found = ask(store, Server(-1, answer=sigmoids, output="logits"))
    assert all(sum(one.unwrap().probabilities) == pytest.approx(1.0) for one in found)


def test_logits_of_a_server_are_read_as_such(store: BlobStore) -> None:
    plain = [one.unwrap().probabilities for one in ask(store, Server(-1))]
    found = [one.unwrap().probabilities for one in ask(store, Server(-1, answer=lambda means: means))]
    assert np.allclose(found, plain, atol=1e-6)


def test_one_number_an_image_is_refused(store: BlobStore) -> None:
    server = Server(-1, answer=lambda means: means[:, :1])
    [first, *_] = ask(store, server, classes=("defect",))
    assert first.problem is not None
    assert "has one output, a yes-or-no score" in first.problem.detail
