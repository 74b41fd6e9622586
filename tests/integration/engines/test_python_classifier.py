"""A user's Python function, from the client that serves it to the engine that calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from fakes.functions import LIGHT, Write, writing
from faultline import Client
from faultline_core.blobs import BlobStore
from faultline_core.contract.base import Outcome
from faultline_core.contract.classifiers import ClassifyRequest, Prediction
from faultline_core.errors import BackendUnavailable, ClassMapMismatch, UnknownModel
from faultline_core.images.codecs import encode_raw
from faultline_core.suite import ClassifiersSuite
from faultline_services.classifiers.engine import ClassifiersEngine
from faultline_services.classifiers.options import ClassifierOptions
from faultline_services.classifiers.registry import ClassifierRegistry

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

        def make(*hosts: str) -> ClassifiersEngine:
            options = ClassifierOptions(oip_hosts=hosts)
            registry = ClassifierRegistry(
                ClassifiersSuite(batch=2), Path("nowhere"), store, options, transport=transport
            )
            return ClassifiersEngine(registry, cache_bytes=0)

        yield make


def grey(store: BlobStore, value: int) -> str:
    return store.put(encode_raw(np.full((20, 24, 3), value, dtype=np.uint8)))


def ask(asked: ClassifiersEngine, spec: str, images: list[str], *classes: str) -> list[Outcome[Prediction]]:
    request = ClassifyRequest(classifier=spec, images=images, classes=list(classes))
    return asked.classify(request).outcomes


@pytest.mark.paper("LANCE-S3-blackbox")
def test_the_engine_gets_the_function_s_probabilities(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(LIGHT)])
    images = [grey(store, value) for value in (0, 51, 255)]
    found = ask(engine("127.0.0.1"), spec, images, "light", "dark")
    expected = [[0.0, 1.0], [0.2, 0.8], [1.0, 0.0]]
    for outcome, row in zip(found, expected, strict=True):
        assert outcome.unwrap().probabilities == pytest.approx(row, abs=1e-6)


def test_a_function_error_fails_only_its_image_and_keeps_the_message(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(SHY)])
    images = [grey(store, value) for value in (200, 0, 100)]
    first, failed, last = ask(engine("127.0.0.1"), spec, images, "cat", "dog")
    assert first.unwrap().probabilities == last.unwrap().probabilities == [0.25, 0.75]
    assert failed.problem is not None
    assert (failed.problem.code, failed.problem.retryable) == ("bad-backend-output", True)
    assert "failed on this image: ValueError: nothing to see" in failed.problem.detail


def test_an_unnamed_output_needs_as_many_classes_as_the_dataset(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(SHY)])
    (found,) = ask(engine("127.0.0.1"), spec, [grey(store, 200)], "cat", "dog", "cow")
    assert found.problem is not None
    assert found.problem.code == "class-map-mismatch"


def test_named_classes_must_include_the_dataset_s(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(LIGHT)])
    with pytest.raises(ClassMapMismatch, match="'grey'"):
        ask(engine("127.0.0.1"), spec, [grey(store, 200)], "light", "grey")


def test_an_error_names_the_setting_that_allows_this_machine(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    (spec,) = client.serve_functions([module(LIGHT)])
    with pytest.raises(UnknownModel, match=r"add '127\.0\.0\.1' to FAULTLINE_SERVICES_OIP_HOSTS"):
        ask(engine(), spec, [grey(store, 200)], "light")


def test_a_function_whose_client_has_closed_is_unreachable(
    store: BlobStore, engine: Engine, module: Write
) -> None:
    asked = engine("127.0.0.1")
    with Client("http://127.0.0.1:8080") as client:
        (spec,) = client.serve_functions([module(LIGHT)])
        ask(asked, spec, [grey(store, 200)], "light")
    with pytest.raises(BackendUnavailable):
        ask(asked, spec, [grey(store, 200)], "light")


def test_the_identity_names_module_function_and_version(
    store: BlobStore, engine: Engine, client: Client, module: Write
) -> None:
    spec = module(LIGHT)
    (told,) = client.serve_functions([spec])
    request = ClassifyRequest(classifier=told, images=[grey(store, 1)], classes=["light"])
    identity = engine("127.0.0.1").classify(request).model
    assert identity.id == told
    assert spec.removeprefix("py:").replace(":", ".") in httpx.URL(told.removeprefix("oip:")).path
