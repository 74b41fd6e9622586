"""Datasets of which nothing can be made, folders with what is no image, and runs of which nothing is left."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.outcomes import DropLimit
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.images.intake import register_folder
from fakes.benchmarks import benchmark_body, benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem
from fakes.store import image

INTERFACE = "the learned interface"
STRESS = {"classifiers": ["steady"], "edit_types": ["background"], "seed": 3}
BENCHMARK = benchmark_body(INTERFACE, n=1, real=2, steps=20)
UNUSABLE: dict[str, tuple[str, dict[str, Any], int, str, str]] = {
    "an empty dataset to test on": (
        "stress-tests", STRESS | {"dataset": "empty"}, 422, "dataset-empty", "'empty' holds no image",
    ),
    "an empty dataset of two classes": (
        "stress-tests", STRESS | {"dataset": "bare"}, 422, "dataset-empty", "'bare' holds no image",
    ),
    "a dataset of one class": (
        "stress-tests", STRESS | {"dataset": "single"}, 422, "class-map-mismatch", "one class, 'sled'",
    ),
    "a dataset of which all is left out": (
        "stress-tests", STRESS | {"dataset": "single", "exclude": ["sled-0.png"]}, 422,
        "class-map-mismatch", "one class",
    ),
    "no dataset to test on": (
        "stress-tests", STRESS | {"dataset": "nobody"}, 404, "unknown-dataset", "'nobody'",
    ),
    "an empty dataset to learn": (
        "dataset-interfaces", {"dataset": "empty", "seed": 1}, 422, "dataset-empty", "'empty'",
    ),
    "a class without images to learn": (
        "dataset-interfaces", {"dataset": "single", "classes": ["boat"], "seed": 1}, 422,
        "invalid-request", "'boat'",
    ),
    "no dataset to learn": (
        "dataset-interfaces", {"dataset": "nobody", "seed": 1}, 404, "unknown-dataset", "'nobody'",
    ),
    "an empty dataset of real images": (
        "shift-benchmarks", BENCHMARK | {"validation": "empty"}, 422, "dataset-empty", "'empty'",
    ),
    "no dataset of real images": (
        "shift-benchmarks", BENCHMARK | {"validation": "nobody"}, 404, "unknown-dataset", "'nobody'",
    ),
    "no interface": (
        "shift-benchmarks", BENCHMARK | {"interface": "nobody"}, 404, "not-found", "'nobody'",
    ),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("gateway"), ports=benchmark_services) as opened:
        await uploaded(opened, 1)
        await opened.http.post("/v1/datasets", json={"name": "empty"})
        await opened.http.post("/v1/datasets", json={"name": "bare", "classes": ["sled", "boat"]})
        await opened.upload("single", 1, ("sled",))
        yield opened


def of_this(gateway: FakeGateway, body: dict[str, Any]) -> dict[str, Any]:
    """The body with the interface that the gateway has."""
    (learned,) = gateway.ledger.runs.page(kind="dataset-interface", state="completed").runs
    return {name: learned.id if value == INTERFACE else value for name, value in body.items()}


@pytest.mark.fault("B47")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kind", UNUSABLE)
async def test_a_dataset_of_which_nothing_can_be_made_is_refused_by_name(
    gateway: FakeGateway, kind: str
) -> None:
    root, body, status, code, named = UNUSABLE[kind]
    before = gateway.ledger.runs.page()
    found = problem(await gateway.http.post(f"/v1/{root}", json=of_this(gateway, body)), status, code)
    assert named in found.detail
    assert gateway.ledger.runs.page() == before


def odd_folder(tmp_path: Path) -> Path:
    """Two images among pipes, devices, links and names that are not text."""
    folder = tmp_path / "folder"
    (folder / "sled").mkdir(parents=True)
    for name in ("good.png", "again.png"):
        (folder / "sled" / name).write_bytes(image(name))
    os.mkfifo(folder / "sled" / "pipe.png")
    (folder / "sled" / "device.png").symlink_to("/dev/zero")
    (folder / "sled" / "nowhere.png").symlink_to(tmp_path / "nowhere")
    (folder / "sled" / "loop.png").symlink_to(folder / "sled" / "loop.png")
    (folder / "sled" / "folder.png").mkdir()
    (folder / "sled" / "above").symlink_to(tmp_path)
    (folder / os.fsdecode(b"\xff\xfe")).mkdir()
    for path in (b"sled/\xff.png", b"\xff\xfe/label.png"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + path)).write_bytes(image("text"))
    return folder


@pytest.mark.fault("B47")
async def test_a_folder_with_all_that_is_no_image_gives_its_images_alone(tmp_path: Path) -> None:
    folder = odd_folder(tmp_path)
    async with fake_gateway(tmp_path) as gateway:
        register_folder("demo", folder, gateway.ledger, gateway.store)
        dataset = gateway.ledger.datasets.get("demo")
        answer = await gateway.http.get("/v1/datasets/demo")
    assert answer.status_code == 200
    assert (dataset.n_sources, dataset.classes) == (2, ["sled"])
    codes = Counter(found.code for found in dataset.rejected)
    # Names that are not text and a link to a folder; a pipe, a device and links to no file.
    assert codes == {"invalid-request": 3, "image-undecodable": 4}


@pytest.mark.fault("B64")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("root", ["stress-tests", "shift-benchmarks", "dataset-interfaces"])
async def test_a_run_of_which_nothing_is_left_is_summed_up_and_judges_nobody(
    gateway: FakeGateway, root: str
) -> None:
    body = {
        "stress-tests": STRESS | {"dataset": "demo"},
        "shift-benchmarks": of_this(gateway, BENCHMARK),
        "dataset-interfaces": {"dataset": "demo", "seed": 1},
    }[root]
    made = (await gateway.http.post(f"/v1/{root}", json=body)).json()["id"]
    assert (await gateway.http.post(f"/v1/runs/{made}/cancel")).status_code == 200
    summary = await gateway.http.get(f"/v1/runs/{made}/summary")
    report = await gateway.http.get(f"/v1/runs/{made}/report")
    assert (summary.status_code, report.status_code) == (200, 200)
    assert "NaN" not in summary.text
    assert "Traceback" not in report.text
    if root != "dataset-interfaces":
        problem(await gateway.http.get(f"/v1/runs/{made}/export"), 422, "dataset-empty")
    if root == "stress-tests":
        told = StressTestSummary.model_validate_json(summary.content)
        assert told.verdict.startswith("No verdict")
        assert DropLimit(0.1).exit_code(told) is ExitCode.INCONCLUSIVE
