"""A user's Python function, from the client that serves it to the engine that calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from pydantic import ValidationError

from counterpose import Client
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.errors import ClassMapMismatch, FunctionGone, UnknownModel
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from fakes.functions import LIGHT, Write, writing

Engine = Callable[..., ClassifiersEngine]

SHY = """
import numpy
input_size = (32, 32)
def predict(images):
    if (images < 10).all(axis=(1, 2, 3)).any():
        raise ValueError("nothing to see")
    return numpy.tile([0.25, 0.75], (len(images), 1))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    yield from writing(tmp_path, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "store"))


@pytest.fixture
def client() -> Iterator[Client]:
    with Client("http://127.0.0.1:8080") as made:
        yield made


@pytest.fixture
def engine(store: BlobStore) -> Iterator[Engine]:
    """Make engines with access to these hosts, over connections that end with the test."""
    with httpx.HTTPTransport() as transport:

        def make(*hosts: str, over: httpx.BaseTransport = transport) -> ClassifiersEngine:
            options = ClassifierOptions(oip_hosts=hosts)
            registry = ClassifierRegistry(
                ClassifiersSuite(batch=2), Path("nowhere"), store, options, transport=over
            )
            return ClassifiersEngine(registry, cache_bytes=0)

        yield make


def grey(store: BlobStore, value: int) -> str:
    return store.put(encode_raw(np.full((20, 24, 3), value, dtype=np.uint8)))


def question(spec: str, images: list[str], *classes: str) -> ClassifyRequest:
    """Ask the function behind a spec as the gateway does, by its name and its address."""
    address = spec.removeprefix("oip:")
    name = address.split("/")[-3]
    return ClassifyRequest(classifier=name, function=address, images=images, classes=list(classes))


def ask(asked: ClassifiersEngine, spec: str, images: list[str], *classes: str) -> list[Outcome[Prediction]]:
    return asked.classify(question(spec, images, *classes)).outcomes


@pytest.mark.paper("LANCE-S3-blackbox")
def test_the_engine_gets_the_function_s_probabilities(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(LIGHT)])
    images = [grey(store, value) for value in (0, 51, 255)]
    found = ask(engine(), spec, images, "light", "dark")
    expected = [[0.0, 1.0], [0.2, 0.8], [1.0, 0.0]]
    for outcome, row in zip(found, expected, strict=True):
        assert outcome.unwrap().probabilities == pytest.approx(row, abs=1e-6)


def test_a_function_error_fails_only_its_image_and_keeps_the_message(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(SHY)])
    images = [grey(store, value) for value in (200, 0, 100)]
    first, failed, last = ask(engine(), spec, images, "cat", "dog")
    assert first.unwrap().probabilities == last.unwrap().probabilities == [0.25, 0.75]
    assert failed.problem is not None
    assert (failed.problem.code, failed.problem.retryable) == ("bad-backend-output", True)
    assert "failed on this image: ValueError: nothing to see" in failed.problem.detail


def test_an_unnamed_output_needs_as_many_classes_as_the_dataset(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(SHY)])
    (found,) = ask(engine(), spec, [grey(store, 200)], "cat", "dog", "cow")
    assert found.problem is not None
    assert found.problem.code == "class-map-mismatch"


def test_named_classes_must_include_the_dataset_s(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(LIGHT)])
    with pytest.raises(ClassMapMismatch, match="'grey'"):
        ask(engine(), spec, [grey(store, 200)], "light", "grey")


@pytest.mark.parametrize("hosts", [(), ("127.0.0.1",), ("127.0.0.1:1",), ("localhost",)])
def test_no_setting_opens_every_port_of_this_machine(
    hosts: tuple[str, ...], store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(LIGHT)])
    request = ClassifyRequest(classifier=spec, images=[grey(store, 200)], classes=["light"])
    with pytest.raises(UnknownModel, match=r"add '127\.0\.0\.1:\d+' to COUNTERPOSE_SERVICES_OIP_HOSTS"):
        engine(*hosts).classify(request)
    port = httpx.URL(spec.removeprefix("oip:")).netloc.decode()
    assert engine(port).classify(request).outcomes[0].unwrap().probabilities


SECRET = "0" * 40


def test_another_secret_is_answered_nothing_and_no_error_repeats_it(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(LIGHT)])
    parts = spec.split("/")
    with pytest.raises(FunctionGone, match="no function answers") as refused:
        ask(engine(), "/".join([*parts[:3], SECRET, *parts[4:]]), [grey(store, 200)], "light")
    assert SECRET not in refused.value.detail
    assert parts[-3] in refused.value.detail


def test_a_redirect_is_not_followed(store: BlobStore, engine: Engine) -> None:
    def redirecting(request: httpx.Request) -> httpx.Response:
        assert SECRET in request.url.path, "it was followed"
        return httpx.Response(307, headers={"location": "http://127.0.0.1:9/admin"})

    asked = engine(over=httpx.MockTransport(redirecting))
    with pytest.raises(FunctionGone, match="no function answers for 'm'"):
        ask(asked, f"oip:http://127.0.0.1:8/{SECRET}/v2/models/m/versions/1", [grey(store, 200)], "light")


@pytest.mark.parametrize(
    "address",
    [
        f"http://localhost:8/{SECRET}/v2/models/m/versions/1",
        f"http://10.0.0.7:8/{SECRET}/v2/models/m/versions/1",
        f"http://127.0.0.1@evil.test:8/{SECRET}/v2/models/m/versions/1",
        f"https://127.0.0.1:8/{SECRET}/v2/models/m/versions/1",
        f"http://127.0.0.1/{SECRET}/v2/models/m/versions/1",
        f"http://127.0.0.1:8/{SECRET[:30]}/v2/models/m/versions/1",
        "http://127.0.0.1:8/v2/models/m/versions/1",
        f"http://127.0.0.1:8/{SECRET}/v2/models/../admin/versions/1",
        f"http://127.0.0.1:8/{SECRET}/v2/models/m/versions/1/stop",
        f"http://127.0.0.1:8/{SECRET}/v2/models/m/versions/1?x=/admin",
        f"http://127.0.0.1:8/{SECRET}/v2/models/m/versions/1\n",
    ],
)
def test_an_address_is_a_model_below_a_secret_on_this_machine(address: str) -> None:
    with pytest.raises(ValidationError, match="function"):
        ClassifyRequest(classifier="m", function=address, images=["0" * 64], classes=["light"])


def test_no_log_has_the_secret(
    store: BlobStore, engine: Engine, client: Client, module: Write, caplog: pytest.LogCaptureFixture
) -> None:
    (spec,) = client.serve_functions([module(LIGHT)])
    with caplog.at_level("INFO"):
        ask(engine(), spec, [grey(store, 200)], "light")
    assert spec.split("/")[3] not in caplog.text


def test_a_function_whose_client_has_closed_is_unreachable(
    store: BlobStore, engine: Engine, module: Write
) -> None:
    asked = engine()
    with Client("http://127.0.0.1:8080") as client:
        (spec,) = client.serve_functions([module(LIGHT)])
        ask(asked, spec, [grey(store, 200)], "light")
    with pytest.raises(FunctionGone):
        ask(asked, spec, [grey(store, 200)], "light")


def test_the_identity_names_the_function_and_not_its_address(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    spec = module(LIGHT)
    (told,) = client.serve_functions([spec])
    identity = engine().classify(question(told, [grey(store, 1)], "light")).model
    assert identity.id == f"function:{spec.removeprefix('py:').replace(':', '.')}"
