"""Functions of the caller's program in runs: who may name them, who calls them, who learns the address."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from counterpose import AsyncClient, Classifier
from counterpose_core.blobs import BlobStore
from counterpose_core.contract import classifiers as contract
from counterpose_core.errors import BackendUnavailable, FunctionGone, InvalidRequest
from counterpose_core.suite import ClassifiersSuite
from counterpose_gateway.services.ports import Services
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.open_inference import OpenInference
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from fakes.access_keys import gateway_of
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import CLASSES, FakeWorld

SECRET = "5" * 40
ADDRESS = f"http://127.0.0.1:4711/{SECRET}/v2/models/mine/versions/1"
KEY = "a-key-of-enough-characters"


class EngineClassifiers(FakeClassifiers):
    """Calls functions as the service does, and answers for every other classifier as a fake."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.functions: set[str | None] = set()
        self.engine: ClassifiersEngine | None = None

    def serve_from(self, store: BlobStore, transport: httpx.BaseTransport) -> None:
        """Read images from ``store`` and reach functions over ``transport``."""
        registry = ClassifierRegistry(
            ClassifiersSuite(), Path("nowhere"), store, ClassifierOptions(), transport=transport
        )
        self.engine = ClassifiersEngine(registry, cache_bytes=0)

    async def classify(self, request: contract.ClassifyRequest) -> contract.ClassifyResponse:
        """Predict each image."""
        if request.function is None:
            return await super().classify(request)
        self.functions.add(request.function)
        assert self.engine is not None
        return await asyncio.to_thread(self.engine.classify, request)

    async def describe(self, request: contract.DescribeRequest) -> contract.ClassifierDescription:
        """Describe a classifier."""
        if request.function is None:
            return await super().describe(request)
        assert self.engine is not None
        return await asyncio.to_thread(self.engine.describe, request)


def with_engine(world: FakeWorld) -> Services:
    """The fakes' services, whose classifiers call functions."""
    return fake_services(world, classifiers=EngineClassifiers(world))


def port_of(gateway: FakeGateway) -> EngineClassifiers:
    """The gateway's classifiers."""
    assert isinstance(gateway.services.classifiers, EngineClassifiers)
    return gateway.services.classifiers


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    """A gateway whose services call functions."""
    with httpx.HTTPTransport() as transport:
        async with fake_gateway(tmp_path, ports=with_engine) as opened:
            port_of(opened).serve_from(opened.store, transport)
            await opened.upload("demo", 1)
            yield opened


def request(**changes: object) -> dict[str, Any]:
    """A stress test of a function."""
    asked = {"dataset": "demo", "classifiers": ["mine"], "functions": {"mine": ADDRESS}, "seed": 0}
    return asked | {"edit_types": ["background"], "max_edits_per_image": 1} | changes


def red(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Probabilities by how red an image is."""
    share = images[..., 0].mean(axis=(1, 2)) / 255.0
    rest = (1.0 - share) / (len(CLASSES) - 1)
    return np.stack([share, *([rest] * (len(CLASSES) - 1))], axis=1)


async def test_a_model_object_is_tested_and_only_its_name_is_told(gateway: FakeGateway) -> None:
    client = AsyncClient(http=gateway.http)
    own = Classifier(red, classes=CLASSES, input_size=(16, 16), name="my model")
    run = await client.stress_tests.create(
        dataset="demo", classifiers=[own, "steady"], edit_types=["background"], max_edits_per_image=1, seed=0
    )
    await gateway.worker().work_off()
    assert (await run.wait()).run.state == "completed"
    summary = await run.summary()
    assert set(summary.models) == {"my-model", "steady"}
    assert summary.models["my-model"].original.acc1.n == len(CLASSES)
    (address,) = port_of(gateway).functions
    assert address is not None
    secret = address.split("/")[3]
    base = f"/v1/stress-tests/{run.id}"
    for path in ("/v1/stress-tests", base, *(f"{base}/{part}" for part in ("summary", "report", "items"))):
        answer = await gateway.http.get(path)
        assert answer.status_code == 200
        assert "my-model" in answer.text, path
        assert secret not in answer.text, path
        assert "127.0.0.1" not in answer.text, path
    client._functions.close()


async def test_the_function_is_gone_with_its_client_and_the_error_names_it(gateway: FakeGateway) -> None:
    created = await gateway.http.post("/v1/stress-tests", json=request())
    problem = created.json()
    assert (created.status_code, problem["code"]) == (503, "function-gone")
    assert "no function answers for 'mine'" in problem["detail"]
    assert SECRET not in created.text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"functions": {"mine": "http://127.0.0.1:8101/classifiers/v1/classify"}}, "/functions/mine"),
        ({"functions": {"mine": ADDRESS.replace("127.0.0.1", "169.254.169.254")}}, "/functions/mine"),
        ({"functions": {"yours": ADDRESS}}, "'yours' is none of the classifiers"),
    ],
)
async def test_an_address_must_be_a_function_s(
    changes: dict[str, Any], told: str, gateway: FakeGateway
) -> None:
    refused = await gateway.http.post("/v1/stress-tests", json=request(**changes))
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
    assert told in refused.text
    assert port_of(gateway).functions == set()


@pytest.mark.parametrize("kind", ["stress-tests", "shift-benchmarks"])
async def test_a_gateway_with_keys_calls_no_address_of_a_caller(kind: str, tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, ports=with_engine, host="0.0.0.0", api_keys=(KEY,)) as gateway:
        gateway.http.headers["authorization"] = f"Bearer {KEY}"
        body = request() if kind == "stress-tests" else {
            "interface": "none", "classifiers": ["mine"], "functions": {"mine": ADDRESS}, "seed": 0,
        }  # fmt: skip
        refused = await gateway.http.post(f"/v1/{kind}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
        assert refused.json()["errors"][0]["pointer"] == "/functions"
        assert "COUNTERPOSE_ALLOW_FUNCTIONS" in refused.text
        assert SECRET not in refused.text
        assert port_of(gateway).functions == set()


async def test_who_comes_with_a_key_of_the_ledger_is_no_caller_of_this_machine(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, ports=with_engine) as gateway:
        # On loopback, without keys so far.
        assert gateway.settings.functions_allowed
        mine = gateway_of(gateway, "default")
        refused = await mine.http.post("/v1/stress-tests", json=request())
        assert refused.json()["errors"][0]["pointer"] == "/functions"


async def test_a_proof_takes_the_function_from_a_new_program(gateway: FakeGateway) -> None:
    client = AsyncClient(http=gateway.http)
    await gateway.upload("more", 8)
    run = await client.stress_tests.create(
        dataset="more", classifiers=["leaning"], edit_types=["background"], limit=12, confirm=False, seed=3
    )
    await gateway.worker().work_off()
    with pytest.raises(InvalidRequest, match=r"is about 'leaning', and the function is named 'mine'"):
        await run.prove(1, images=2, classifier=Classifier(red, classes=CLASSES, name="mine"))
    assert port_of(gateway).functions == set()
    own = Classifier(red, classes=CLASSES, input_size=(16, 16), name="leaning")
    child = await run.prove(1, images=2, classifier=own)
    await gateway.worker().work_off()
    assert (await child.wait()).run.state == "completed"
    assert port_of(gateway).functions == set(client._functions.functions_named(["leaning"]).values())
    client._functions.close()


async def test_a_child_run_keeps_its_parent_s_functions(gateway: FakeGateway) -> None:
    parent = gateway.ledger.create_run(
        kind="stress-test", dataset="demo", config={}, items=[], fingerprint="f", functions={"mine": ADDRESS}
    ).id
    child = gateway.ledger.create_run(
        kind="stress-test", dataset="demo", config={}, items=[], fingerprint="g", parent=parent
    ).id
    assert gateway.ledger.functions(child) == {"mine": ADDRESS}
    assert SECRET not in gateway.ledger.run(child).model_dump_json()


def failing(how: str) -> Callable[[NDArray[np.uint8]], NDArray[np.float64]]:
    """A model that works on the grey images of its trial, and fails on the images of the run."""

    def answer(images: NDArray[np.uint8]) -> NDArray[np.float64]:
        found = red(images)
        bad = (images != images[:, :1, :1]).any(axis=(1, 2, 3))
        if how == "raises" and bad.any():
            raise ValueError("no such colour")
        if how == "other shape" and bad.any():
            return np.full((len(images), 2), 0.5)
        found[bad] = np.nan if how == "nan" else 7.0
        return found

    return answer


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raises", "ValueError: no such colour"),
        ("other shape", "it returned 2 classes, but 4 before"),
        ("nan", "it has NaN or infinite numbers"),
        ("logits", "it sums to 28, not 1 (are these logits?)"),
    ],
)
async def test_a_model_that_fails_in_the_run_is_named_and_the_others_are_unaffected(
    how: str, told: str, gateway: FakeGateway
) -> None:
    client = AsyncClient(http=gateway.http)
    own = Classifier(failing(how), classes=CLASSES, input_size=(16, 16), name="mine")
    run = await client.stress_tests.create(
        dataset="demo", classifiers=[own, "steady"], edit_types=["background"], max_edits_per_image=1, seed=0
    )
    await gateway.worker().work_off()
    client._functions.close()
    summary = await run.summary()
    assert summary.counts["failed"] == 0
    assert summary.models["steady"].original.acc1.n == len(CLASSES)
    assert summary.models["mine"].original.acc1.n == 0
    (missing,) = summary.unanswered
    assert (missing.classifier, missing.images) == ("mine", missing.of)
    assert "'function:mine' failed on this image" in missing.detail
    assert told in missing.detail
    assert str(missing) in str(summary)
    assert told.partition(" (")[0] in html.unescape(await run.report())


async def test_a_run_whose_function_is_gone_stops_and_goes_on_when_it_is_served_again(
    gateway: FakeGateway,
) -> None:
    client = AsyncClient(http=gateway.http)
    own = Classifier(red, classes=CLASSES, input_size=(16, 16), name="mine")
    run = await client.stress_tests.create(
        dataset="demo", classifiers=[own, "steady"], edit_types=["background"], max_edits_per_image=1
    )
    client._functions.close()
    await gateway.worker().work_off()
    with pytest.raises(FunctionGone, match=r"no function answers for 'mine'.*serve the function again"):
        await run.wait()
    stopped = run.run
    assert stopped.problem is not None
    assert (stopped.state, stopped.problem.code) == ("failed", "function-gone")
    counts = stopped.request_counts
    assert (counts.failed, counts.cancelled) == (0, counts.total)
    assert gateway.ledger.audit(run.id) == []

    # Another program, after the first one has ended.
    later = AsyncClient(http=gateway.http)
    again = await later.stress_tests.get(run.id)
    other = Classifier(red, classes=CLASSES, input_size=(16, 16), name="yours")
    with pytest.raises(InvalidRequest, match="has no function 'yours'; its functions: 'mine'"):
        await again.resume(classifiers=[other])
    await again.resume(classifiers=[own])
    await gateway.worker().work_off()
    assert (await again.wait()).state == "completed"
    summary = await again.summary()
    assert summary.models["mine"].original.acc1.n == len(CLASSES)
    assert SECRET not in repr(again.run)
    later._functions.close()


async def test_a_single_broken_connection_to_a_function_stops_nothing(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = AsyncClient(http=gateway.http)
    own = Classifier(red, classes=CLASSES, input_size=(16, 16), name="mine")
    run = await client.stress_tests.create(
        dataset="demo", classifiers=[own], edit_types=["background"], max_edits_per_image=1
    )
    broken, infer = [True], OpenInference.infer

    def once_broken(self: OpenInference, images: list[Any]) -> Any:
        if broken:
            broken.clear()
            raise BackendUnavailable("the connection broke")
        return infer(self, images)

    monkeypatch.setattr(OpenInference, "infer", once_broken)
    # The items rest for two seconds or so before they are tried again.
    async with asyncio.timeout(60.0):
        while not (await run.refresh()).ended:
            await gateway.worker().work_off()
            await asyncio.sleep(0.1)
    assert run.state == "completed"
    assert broken == []
    client._functions.close()
