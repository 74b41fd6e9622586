"""Transfers over a real ledger and fake services: do images that fool one classifier fool others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from counterpose import AsyncClient
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.transfers import TransferItem, TransferSummary
from counterpose_gateway.services.ports import Services
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import HuntClassifiers, chance, hunted_services
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.world import FakeWorld

ROOT = "/v1/transfers"
SNOW = "a photo of a plate in the snow"
COPIED = 0.75
"""How often the copy errs where ``leaning`` does."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


class WithCopy(HuntClassifiers):
    """``timm:resnet18`` is another training of ``leaning``: it errs on three in four of its failures."""

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        """As ``leaning``, except on a quarter of its failures."""
        if request.classifier != "timm:resnet18":
            return super().predict(request, image)
        shown = self.world.shown[image]
        as_original = request.model_copy(update={"classifier": "leaning"})
        copied = super().predict(as_original, image)
        if chance("copy", image) < COPIED:
            return copied
        right = [1.0 if name == shown.label else 0.0 for name in request.classes]
        return Prediction(probabilities=right, top=list(range(len(right))))


def copied_services(world: FakeWorld) -> Services:
    """The services of the hunted world, with a copy of its classifier."""
    services = hunted_services(world)
    return Services(
        captioner=services.captioner, perturber=services.perturber, editor=services.editor,
        scorer=services.scorer, classifiers=WithCopy(world),
    )  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    folder = tmp_path_factory.mktemp("transfers")
    async with fake_gateway(folder, Clock(), ports=copied_services) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def source(gateway: FakeGateway) -> str:
    """An adversarial dataset that fools a classifier."""
    body = {
        "classifiers": ["leaning"], "samples": 120, "most_kept": 60, "images": 300, "baseline": 64, "seed": 1,
        "seeds": {"kind": "captions", "captions": [{"label": "plate", "text": SNOW}]},
    }  # fmt: skip
    return await started(gateway, "/v1/adversarial-datasets", body)


async def started(gateway: FakeGateway, path: str, body: dict[str, Any]) -> str:
    """Start a run, work it off and return its id."""
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code == 202, answer.text
    run: str = answer.json()["id"]
    await gateway.worker().work_off()
    return run


async def transferred(gateway: FakeGateway, body: dict[str, Any]) -> TransferSummary:
    """The summary of a transfer that was worked off."""
    run = await started(gateway, ROOT, {"seed": 1} | body)
    assert violated(gateway.ledger, run) == []
    summary = await gateway.http.get(f"/v1/runs/{run}/summary")
    assert summary.status_code == 200, summary.text
    return TransferSummary.model_validate_json(summary.content)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def found(gateway: FakeGateway, source: str) -> TransferSummary:
    """The matrix of one row, shown to itself, to its copy and to a steady classifier."""
    return await transferred(
        gateway, {"source": source, "classifiers": ["leaning", "timm:resnet18", "steady"]}
    )


@pytest.mark.paper("BUGS-S4.2-transfer")
async def test_a_copy_errs_on_the_images_and_a_steady_classifier_does_not(found: TransferSummary) -> None:
    own, copy, steady = found.cells
    assert [(each.row, each.column, each.by_choice) for each in found.cells] == [
        ("leaning", "leaning", True), ("leaning", "timm:resnet18", False), ("leaning", "steady", False),
    ]  # fmt: skip
    assert own.rate.estimate == 1.0
    assert own.p_adjusted is None
    assert own.rate.n == copy.rate.n == steady.rate.n > 40
    assert copy.rate.low is not None
    assert copy.rate.high is not None
    assert copy.rate.low <= COPIED <= copy.rate.high
    assert copy.p_adjusted is not None
    assert copy.p_adjusted < 1e-6
    assert copy.baseline.estimate is not None
    assert copy.baseline.estimate < 0.3
    assert copy.captions == 1
    assert steady.p_adjusted is not None
    assert steady.p_adjusted > 0.05
    assert "Failures transfer in 1 of 2 pairs" in found.verdict
    assert "timm:resnet18 fails on" in found.verdict


async def test_another_criterion_than_the_source_s_is_told(gateway: FakeGateway, source: str) -> None:
    body = {
        "source": source,
        "classifiers": ["timm:resnet18"],
        "criterion": {"name": "low-confidence", "below": 1},
    }
    found = await transferred(gateway, body | {"images": 10})
    assert (found.config.criterion.name, found.config.chosen_by.name) == ("low-confidence", "top-1")
    (cell,) = found.cells
    # Every answer of the fakes is below certainty, except the copy's right ones.
    assert cell.rate.n == 10
    baseline = [item for item in gateway.ledger.items.of(found.run_id, TransferItem) if _is_alone(item)]
    assert len(baseline) == 10


def _is_alone(item: TransferItem) -> bool:
    return item.instruction is not None and item.instruction.phase == "baseline"


async def test_held_out_failures_of_a_hunt_transfer(gateway: FakeGateway) -> None:
    hunt = {
        "classifiers": ["leaning", "steady"], "labels": ["plate"], "budget": {"images": 250}, "held_out": 32,
        "hypotheses": 4, "seed": 2,
    }  # fmt: skip
    run = (await gateway.http.post("/v1/bug-hunts", json=hunt)).json()["id"]
    early = await gateway.http.post(ROOT, json={"source": run, "classifiers": ["steady"], "seed": 1})
    assert (early.status_code, early.json()["code"]) == (409, "run-not-ended")
    await gateway.worker().work_off()
    found = await transferred(gateway, {"source": run, "classifiers": ["timm:resnet18", "steady"]})
    cells = {(each.row, each.column): each for each in found.cells}
    cell = cells["leaning", "timm:resnet18"]
    assert cell.rate.n > 15
    assert cell.rate.estimate is not None
    assert cell.rate.estimate > 0.5
    assert cells["steady", "steady"].by_choice


async def test_the_report_shows_the_matrix_first(found: TransferSummary, gateway: FakeGateway) -> None:
    text = (await gateway.http.get(f"/v1/runs/{found.run_id}/report")).text
    places = [text.index(each) for each in ("<h1>", 'id="matrix"', "chosen by it", "Images that fool most")]
    assert places == sorted(places)
    assert 'class="l3"' in text
    assert 'class="l0"' in text
    shown = await gateway.http.get(f"/ui/runs/{found.run_id}")
    assert shown.status_code == 200
    assert "Failures transfer" in (await gateway.http.get("/ui")).text


async def test_a_client_reads_the_matrix(gateway: FakeGateway, source: str) -> None:
    client = AsyncClient(http=gateway.http)
    run = await client.transfers.create(source=source, classifiers=["steady"], images=20, seed=3)
    await gateway.worker().work_off()
    summary = await (await run.wait()).summary()
    assert [(each.row, each.column) for each in summary.cells] == [("leaning", "steady")]
    assert str(summary).startswith("No transfer is proven")


@pytest.mark.parametrize(
    ("changes", "status", "pointer"),
    [
        ({"source": "nobody"}, 404, "/source"),
        ({"classifiers": ["nobody"]}, 404, "/classifiers/0"),
        ({"classifiers": ["steady", "steady"]}, 422, "/classifiers"),
        ({"images": 0}, 422, "/images"),
    ],
)
async def test_what_cannot_be_shown_is_refused_by_name(
    gateway: FakeGateway, source: str, changes: dict[str, Any], status: int, pointer: str
) -> None:
    body = {"source": source, "classifiers": ["steady"], "seed": 1} | changes
    answer = await gateway.http.post(ROOT, json=body)
    assert answer.status_code == status, answer.text
    assert pointer in [each["pointer"] for each in answer.json()["errors"]]


async def test_a_run_of_another_kind_and_one_without_images_are_refused(
    gateway: FakeGateway, found: TransferSummary
) -> None:
    body = {"source": found.run_id, "classifiers": ["steady"], "seed": 1}
    answer = await gateway.http.post(ROOT, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert "name an adversarial dataset or a bug hunt" in answer.text
    nothing = {
        "classifiers": ["steady"], "samples": 16, "images": 24, "baseline": 8, "seed": 1, "fools": "all",
        "criterion": {"name": "not-in-top", "k": 2},
        "seeds": {"kind": "captions", "captions": [{"label": "sled", "text": "a photo of a sled"}]},
    }  # fmt: skip
    empty = await started(gateway, "/v1/adversarial-datasets", nothing)
    answer = await gateway.http.post(ROOT, json=body | {"source": empty})
    assert "no image that fools its classifiers" in answer.text
