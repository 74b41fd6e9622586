"""Functions of the caller's program in runs: who may name them, who calls them, who learns the address."""

from __future__ import annotations

import html
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from counterpose import AsyncClient, Classifier
from counterpose._cli.stress_test import stress_test_text
from counterpose_core.errors import ClassMapMismatch, InvalidRequest
from counterpose_gateway.records.items import MAX_ATTEMPTS
from fakes.access_keys import gateway_of
from fakes.engine_classifiers import gateway_with_engine, port_of, red, with_engine
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock
from fakes.world import CLASSES

SECRET = "5" * 40
ADDRESS = f"http://127.0.0.1:4711/{SECRET}/v2/models/mine/versions/1"
KEY = "a-key-of-enough-characters"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    """A gateway whose services call functions."""
    async with gateway_with_engine(tmp_path) as opened:
        yield opened


def request(**changes: object) -> dict[str, Any]:
    """A stress test of a function."""
    asked = {"dataset": "demo", "classifiers": ["mine"], "functions": {"mine": ADDRESS}, "seed": 0}
    return asked | {"edit_types": ["background"], "max_edits_per_image": 1} | changes


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
    assert summary.models["my-model"].original.hit_rates[0].n == len(CLASSES)
    (address,) = port_of(gateway).functions
    assert address is not None
    secret = address.split("/")[3]
    base = f"/v1/runs/{run.id}"
    for path in ("/v1/runs", base, *(f"{base}/{part}" for part in ("summary", "report", "items"))):
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


def wide(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Probabilities of two classes of each colour: more than the dataset has."""
    return np.repeat(red(images) / 2, 2, axis=1)


WIDE = [f"{size} {name}" for name in CLASSES for size in ("small", "large")]
WIDE_MAP = {name: [f"small {name}", f"large {name}"] for name in CLASSES}


@pytest.mark.parametrize("others", [[], ["steady"]])
async def test_a_model_with_other_outputs_than_the_dataset_s_classes_is_refused_before_an_item_is_made(
    gateway: FakeGateway, others: list[str]
) -> None:
    client = AsyncClient(http=gateway.http)
    own = Classifier(wide, input_size=(16, 16), name="mine")
    with pytest.raises(
        ClassMapMismatch, match=r"has 8 classes, not the 4 .* \(classes=\).*label_map"
    ) as found:
        await client.stress_tests.create(dataset="demo", classifiers=[*others, own], seed=0)
    client._functions.close()
    assert found.value.pointer == f"/classifiers/{len(others)}"
    assert not gateway.ledger.runs.page(limit=5).runs


async def test_a_label_map_of_the_run_joins_a_model_s_classes_to_the_dataset_s(gateway: FakeGateway) -> None:
    client = AsyncClient(http=gateway.http)
    await gateway.upload("more", 6)
    own = Classifier(wide, classes=WIDE, input_size=(16, 16), name="mine")
    narrow = Classifier(red, classes=CLASSES, input_size=(16, 16), name="narrow")
    with pytest.raises(ClassMapMismatch, match="label map of the run"):
        await client.stress_tests.create(dataset="more", classifiers=[own], seed=0)
    run = await client.stress_tests.create(
        dataset="more", classifiers=[own, narrow], label_map=WIDE_MAP, max_edits_per_image=1,
        edit_types=["background"], confirm=False, seed=0,
    )  # fmt: skip
    await gateway.worker().work_off()
    assert (await run.wait()).run.state == "completed"
    result = (await anext(run.items())).result
    assert result is not None
    # The other model is asked for its own classes, which are called as the dataset's.
    assert result.predictions["mine"].score == pytest.approx(result.predictions["narrow"].score)
    gate = await client.gates.create(baseline=run.id, classifiers=[own], incumbent=narrow)
    assert gate.run.resolved_config["request"]["label_map"] == WIDE_MAP
    client._functions.close()


async def test_a_label_map_names_classes_of_the_dataset(gateway: FakeGateway) -> None:
    asked = request(functions={}, classifiers=["steady"], label_map={"zeppelin": ["balloon"]})
    refused = await gateway.http.post("/v1/stress-tests", json=asked)
    assert (refused.status_code, refused.json()["code"]) == (422, "class-map-mismatch")
    assert refused.json()["errors"][0]["pointer"] == "/label_map"
    assert "'zeppelin', which is no class of this run" in refused.text


class Normalised(torch.nn.Module):
    """Tells light from dark images whose values are normalised to be about 0 in the mean."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Logits (n, 2) of a batch (n, 3, height, width)."""
        light = batch.mean(dim=(1, 2, 3))
        return 40 * torch.stack([light, -light], dim=1)


def blue_is_first(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Probabilities of light and dark by the blue channel, which it takes for the first."""
    light = images[..., 0].mean(axis=(1, 2)) / 255.0
    return np.stack([light, 1 - light], axis=1)


@pytest.mark.parametrize(
    ("model", "colours", "warned"),
    [
        (Classifier(Normalised(), input_size=(16, 16)), ((220, 210, 200), (90, 80, 70)),
         "Normalised is probably fed wrongly: with ImageNet's mean and deviation it is right on 16 of 16"),
        (Classifier(blue_is_first, input_size=(16, 16)), ((9, 40, 230), (230, 40, 9)),
         "blue_is_first is probably fed wrongly: with blue before red it is right on 16 of 16"),
        (Classifier(Normalised(), input_size=(16, 16), transform=lambda image: torch.zeros(3, 16, 16)),
         ((220, 210, 200), (90, 80, 70)), None),
        (Classifier(blue_is_first, input_size=(16, 16)), ((9, 40, 230), (8, 30, 230)), None),
    ],
)  # fmt: skip
async def test_a_model_that_another_preparation_makes_much_better_is_told(
    gateway: FakeGateway, model: Classifier, colours: Any, warned: str | None
) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "lights", "classes": ["light", "dark"]})
    sources = [
        gateway.upload_of(png(tuple(value + number for value in colour)), label)
        for label, colour in zip(("light", "dark"), colours, strict=True)
        for number in range(8)
    ]
    await gateway.http.post("/v1/datasets/lights/sources", json={"sources": sources})
    client = AsyncClient(http=gateway.http)
    run = await client.stress_tests.create(dataset="lights", classifiers=[model], seed=0)
    client._functions.close()
    (found,) = (await run.summary()).baseline
    assert found.accuracy.estimate is not None
    assert found.accuracy.estimate <= 0.5
    if warned is None:
        assert found.warning is None
        assert ("the one other" in str(found)) is (model.transform is None)
    else:
        assert warned in str(found)


def png(colour: tuple[int, ...]) -> bytes:
    """An image of one colour."""
    out = io.BytesIO()
    Image.new("RGB", (16, 16), colour).save(out, "PNG")
    return out.getvalue()


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
    parent = gateway.ledger.runs.create(
        kind="stress-test", dataset="demo", config={}, items=[], fingerprint="f", functions={"mine": ADDRESS}
    ).id
    child = gateway.ledger.runs.create(
        kind="stress-test", dataset="demo", config={}, items=[], fingerprint="g", parent=parent
    ).id
    assert gateway.ledger.runs.functions(child) == {"mine": ADDRESS}
    assert SECRET not in gateway.ledger.runs.get(child).model_dump_json()


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


async def test_the_commonest_failure_of_a_run_stands_in_verdict_page_and_list(tmp_path: Path) -> None:
    clock = Clock()
    with httpx.HTTPTransport() as transport:
        async with fake_gateway(tmp_path, clock, ports=with_engine) as gateway:
            port_of(gateway).serve_from(gateway.store, transport)
            await gateway.upload("demo", 1)
            client = AsyncClient(http=gateway.http)
            own = Classifier(failing("raises"), classes=CLASSES, input_size=(16, 16), name="mine")
            run = await client.stress_tests.create(dataset="demo", classifiers=[own], seed=0)
            for _ in range(MAX_ATTEMPTS):
                await gateway.worker().work_off()
                clock.now += 3600.0
            client._functions.close()
            summary = await run.summary()
            assert summary.failure is not None
            failed = summary.failure.failed
            assert (summary.failure.code, failed) == ("bad-backend-output", summary.counts["failed"])
            assert summary.counts["planned"] == summary.failure.of
            told = str(summary.failure)
            assert told.endswith("'function:mine' failed on this image: ValueError: no such colour")
            assert summary.verdict.splitlines()[-1] == told
            assert told in stress_test_text(summary).splitlines()
            assert html.unescape(await run.report()).count(f'<p class="bad">{told}</p>') == 1
            for page in (f"/ui/runs/{run.id}", "/ui"):
                assert told in html.unescape((await gateway.http.get(page)).text), page


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
    assert summary.models["steady"].original.hit_rates[0].n == len(CLASSES)
    assert summary.models["mine"].original.hit_rates[0].n == 0
    (missing,) = summary.unanswered
    assert (missing.classifier, missing.images) == ("mine", missing.of)
    assert "'function:mine' failed on this image" in missing.detail
    assert told in missing.detail
    assert str(missing) in str(summary)
    assert told.partition(" (")[0] in html.unescape(await run.report())
