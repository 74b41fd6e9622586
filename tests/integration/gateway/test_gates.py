"""Gates over a real ledger and fake services: the same counterfactuals for candidate and incumbent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_core.contract.gates import GateInstruction, GateItem, GateSummary, RegressionSet
from counterpose_core.contract.webhooks import WebhookCreate, WebhookMessage
from counterpose_core.errors import ImageUndecodable
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.services.ports import Services
from counterpose_gateway.webhooks.delivery import Deliveries, gate_summary
from counterpose_gateway.webhooks.target import Target
from fakes import webhook_receiver as receivers
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import CLASSES, FakeWorld, fake_suite

ROOT = "/v1/gates"
PER_CLASS = 20
TESTED: dict[str, Any] = {
    "dataset": "demo", "classifiers": ["steady"], "edit_types": ["background", "adjective"],
    "max_edits_per_image": 4, "lance_r_edits_per_image": 0, "confirm": False, "seed": 3,
}  # fmt: skip

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Troubled(FakeClassifiers):
    """``timm:resnet18`` cannot read images that are ``torn``, and no classifier those that are ``broken``."""

    torn: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """As the fake, except on these images."""
        answer = await super().classify(request)
        unread = self.broken | (self.torn if request.classifier == "timm:resnet18" else frozenset())
        refused: Outcome[Any] = Outcome(problem=Problem.of(ImageUndecodable("torn")))
        pairs = zip(request.images, answer.outcomes, strict=True)
        outcomes = [refused if image in unread else outcome for image, outcome in pairs]
        return answer.model_copy(update={"outcomes": outcomes})


def troubled_services(world: FakeWorld) -> Services:
    return fake_services(world, classifiers=Troubled(world))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the gateway's state is."""
    return tmp_path_factory.mktemp("gates")


@pytest.fixture(scope="module")
def clock() -> Clock:
    """The ledger's time."""
    return Clock()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(folder: Path, clock: Clock) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(folder, clock, ports=troubled_services) as opened:
        for classes in (CLASSES[:2], CLASSES[2:]):
            await opened.upload("demo", PER_CLASS, classes)
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def baseline(gateway: FakeGateway) -> str:
    """A stress test of 80 source images."""
    return await ended(gateway, "/v1/stress-tests", TESTED)


async def ended(gateway: FakeGateway, path: str, body: dict[str, Any]) -> str:
    """Start a run, work it off and return its id."""
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code == 202, answer.text
    run: str = answer.json()["id"]
    await gateway.worker().work_off()
    return run


async def gated(gateway: FakeGateway, body: dict[str, Any]) -> GateSummary:
    """The summary of a gate that was worked off."""
    run = await ended(gateway, ROOT, {"seed": 1} | body)
    assert violated(gateway.ledger, run) == []
    answer = await gateway.http.get(f"/v1/runs/{run}/summary")
    assert answer.status_code == 200, answer.text
    return GateSummary.model_validate_json(answer.content)


async def refused(gateway: FakeGateway, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code in (404, 409, 422), answer.text
    problem: dict[str, Any] = answer.json()
    return problem


async def test_a_candidate_with_a_bug_fails_and_an_equal_one_passes(
    gateway: FakeGateway, baseline: str
) -> None:
    found = await gated(gateway, {"baseline": baseline, "classifiers": ["leaning", "timm:resnet18"]})
    assert found.outcome == "failed"
    states = {(cell.classifier, cell.change): cell.state for cell in found.cells}
    assert states == {
        ("leaning", "background"): "failed",
        ("leaning", "adjective"): "passed",
        ("leaning", None): "passed",
        ("timm:resnet18", "background"): "passed",
        ("timm:resnet18", "adjective"): "passed",
        ("timm:resnet18", None): "passed",
    }
    snow = found.cells[0]
    assert snow.regression.n == snow.incumbent.n == 4 * PER_CLASS
    assert snow.incumbent.estimate == 0.0
    assert snow.regression.estimate == snow.candidate.estimate
    assert snow.left_out == 0
    # Each of four classes is tested, too.
    assert found.tested == 6 + 4 * 6
    assert found.verdict.startswith("Failed: 1 of 30 cells regress by more than 10 points; leaning under bac")
    assert {each.classifier for each in found.examples} == {"leaning"}
    assert {(each.change, each.incumbent == each.label) for each in found.examples} == {("background", True)}
    alone = await gated(gateway, {"baseline": baseline, "classifiers": ["timm:resnet18"]})
    assert alone.outcome == "passed"
    assert alone.verdict.startswith("Passed: no regression above 10 points in 3 cells, and none proven in 12")
    assert "Untested" not in alone.verdict


async def test_classes_with_too_few_images_under_a_change_are_told_wherever_the_outcome_is(
    gateway: FakeGateway,
) -> None:
    small = await ended(gateway, "/v1/stress-tests", TESTED | {"limit": 40})
    frozen = RegressionSet.model_validate(
        (await gateway.http.post(f"{ROOT}/freeze", json={"baseline": small})).json()
    )
    assert frozen.untested is not None
    counts = {each.change: (each.sources, each.classes) for each in frozen.untested}
    # Forty images are enough under every change, but ten of a class are not.
    few = dict.fromkeys(CLASSES, 10)
    assert counts == {"adjective": (few, 4), "background": (few, 4), None: (few, 4)}
    said = (
        "Untested, on fewer than 20 source images: 8 of 8 cells of one class under one change and 4 of 4 "
        "classes on the source images alone."
    )
    assert said in str(frozen)
    passed = await gated(gateway, {"baseline": small, "classifiers": ["timm:resnet18"], "tolerance": 0.5})
    assert passed.outcome == "passed"
    assert passed.verdict.endswith(f" {said}")
    assert "and no class was tested" in passed.verdict
    assert passed.config.regression_set.untested == frozen.untested
    page = (await gateway.http.get(f"/v1/runs/{passed.run_id}/report")).text
    row = ", ".join(f"{label} 10" for label in sorted(CLASSES))
    assert f"fewer than 20 source images, under background: 4 of 4 classes: {row}." in page
    for tolerance, outcome in ((0.1, "failed"), (0.3, "inconclusive")):
        body = {"baseline": small, "classifiers": ["leaning"], "tolerance": tolerance}
        found = await gated(gateway, body)
        assert (found.outcome, found.verdict.endswith(said)) == (outcome, True), found.verdict


async def test_a_webhook_is_told_of_the_gate_that_failed_and_of_no_other(
    gateway: FakeGateway, baseline: str
) -> None:
    with receivers.webhook_receiver(receivers.status(200)) as receiver:
        wanted = WebhookCreate(url=receiver.url, events=["gate.failed"])
        hook = gateway.ledger.webhooks.create(wanted)
        failed = await gated(gateway, {"baseline": baseline, "classifiers": ["leaning"]})
        await gated(gateway, {"baseline": baseline, "classifiers": ["timm:resnet18"]})
        deleted = await gated(gateway, {"baseline": baseline, "classifiers": ["leaning"], "seed": 2})
        judge = partial(gate_summary, gateway.ledger, gateway.store)
        deliveries = Deliveries(gateway.ledger.webhooks, Target(private=True), judge)
        leased = gateway.ledger.webhooks.lease(seconds=30, most=8)
        assert [each.event for each in leased] == ["gate.failed"] * 3
        gateway.ledger.runs.delete(deleted.run_id)
        for each in leased:
            await asyncio.to_thread(deliveries.deliver, each)
        (told,) = receiver.received
        left = gateway.ledger.webhooks.get(hook.id).deliveries
        gateway.ledger.webhooks.delete(hook.id)
    message = WebhookMessage.model_validate_json(told.body)
    assert (message.type, message.data.id) == ("gate.failed", failed.run_id)
    assert message.data.verdict == failed.verdict
    assert [(each.run_id, each.state) for each in left] == [(failed.run_id, "delivered")]


async def test_every_pair_is_an_item_with_both_images_answered_by_both(
    gateway: FakeGateway, baseline: str
) -> None:
    found = await gated(gateway, {"baseline": baseline, "classifiers": ["leaning"]})
    items = list(gateway.ledger.items.of(found.run_id, GateItem))
    assert len(items) == found.config.regression_set.pairs > 4 * PER_CLASS
    for item in items:
        assert item.result is not None
        assert item.instruction is not None
        assert set(item.result.predictions) == set(item.result.original_predictions) == {"steady", "leaning"}
        shown = gateway.world.shown[item.instruction.image]
        assert (not item.result.predictions["leaning"].right) == ("snow" in shown.caption)


async def test_a_report_shows_the_verdict_and_the_pairs(gateway: FakeGateway, baseline: str) -> None:
    found = await gated(gateway, {"baseline": baseline, "classifiers": ["leaning"]})
    answer = await gateway.http.get(f"/v1/runs/{found.run_id}/report")
    assert answer.status_code == 200
    assert found.verdict in answer.text
    assert "Only the candidate errs" in answer.text
    assert "image not available" not in answer.text


async def test_a_frozen_set_refuses_other_pairs(gateway: FakeGateway, baseline: str) -> None:
    answer = await gateway.http.post(f"{ROOT}/freeze", json={"baseline": baseline})
    assert answer.status_code == 200, answer.text
    frozen = answer.json()
    assert frozen["classifiers"] == ["steady"]
    assert frozen["sources"] == 4 * PER_CLASS
    body = {"baseline": baseline, "classifiers": ["timm:resnet18"], "seed": 1}
    found = await gated(gateway, body | {"digest": frozen["digest"]})
    assert found.config.regression_set.digest == frozen["digest"]
    problem = await refused(gateway, ROOT, body | {"digest": "0" * 64})
    assert problem["errors"][0]["pointer"] == "/digest"
    assert "freeze it again" in problem["detail"]


def troubled(gateway: FakeGateway) -> Troubled:
    services = gateway.services.classifiers
    assert isinstance(services, Troubled)
    return services


async def first_pair(gateway: FakeGateway, body: dict[str, Any]) -> GateInstruction:
    """The first pair of a gate."""
    found = await gated(gateway, body)
    told = next(iter(gateway.ledger.items.of(found.run_id, GateItem))).instruction
    assert told is not None
    return told


async def test_an_answer_that_is_missing_never_passes(
    gateway: FakeGateway, baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"baseline": baseline, "classifiers": ["timm:resnet18"]}
    told = await first_pair(gateway, body)
    monkeypatch.setattr(troubled(gateway), "torn", frozenset([told.image]))
    found = await gated(gateway, body)
    assert gateway.ledger.runs.get(found.run_id).state == "completed"
    assert found.outcome == "error"
    by_change = {cell.change: cell for cell in found.cells}
    assert (by_change[told.change].state, by_change[told.change].left_out) == ("error", 1)
    assert by_change[None].state == "passed"
    assert found.unanswered == {"timm:resnet18": 1}


async def test_a_run_that_does_not_complete_has_no_verdict(
    gateway: FakeGateway, baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"baseline": baseline, "classifiers": ["leaning"]}
    told = await first_pair(gateway, body)
    monkeypatch.setattr(troubled(gateway), "broken", frozenset([told.image]))
    found = await gated(gateway, body)
    assert gateway.ledger.runs.get(found.run_id).state == "completed_with_failures"
    assert found.outcome == "error"
    assert found.failure is not None
    assert found.verdict.splitlines()[1:] == [str(found.failure)]
    # Not even the regression that the other pairs prove: the command says that the run is incomplete.
    assert {cell.state for cell in found.cells} == {"error"}


async def test_a_run_that_goes_on_has_no_outcome(gateway: FakeGateway, baseline: str) -> None:
    body = {"baseline": baseline, "classifiers": ["leaning"], "seed": 1}
    run = (await gateway.http.post(ROOT, json=body)).json()["id"]
    found = GateSummary.model_validate_json((await gateway.http.get(f"/v1/runs/{run}/summary")).content)
    assert found.outcome is None
    await gateway.worker().work_off()


async def test_what_a_killed_worker_held_is_done_by_another_with_the_same_figures(
    gateway: FakeGateway, baseline: str, clock: Clock
) -> None:
    body = {"baseline": baseline, "classifiers": ["leaning"], "seed": 1}
    undisturbed = await gated(gateway, body)
    run = (await gateway.http.post(ROOT, json=body)).json()["id"]
    # It dies with two groups, and says nothing of them ever again.
    held = gateway.ledger.items.lease_many("killed", seconds=30.0, most=2)
    await gateway.worker().work_off()
    assert gateway.ledger.runs.get(run).request_counts.pending == sum(len(group.items) for group in held) > 0
    clock.now += 31.0
    await gateway.worker().work_off()
    assert violated(gateway.ledger, run) == []
    found = GateSummary.model_validate_json((await gateway.http.get(f"/v1/runs/{run}/summary")).content)
    assert (found.outcome, found.verdict) == ("failed", undisturbed.verdict)
    assert found.cells == undisturbed.cells


@pytest.mark.fault("B63")
async def test_a_baseline_that_is_no_set_is_refused(gateway: FakeGateway, baseline: str) -> None:
    gate = await gated(gateway, {"baseline": baseline, "classifiers": ["timm:resnet18"]})
    small = await ended(gateway, "/v1/stress-tests", TESTED | {"limit": 8})
    several = await ended(gateway, "/v1/stress-tests", TESTED | {"classifiers": ["steady", "leaning"]})
    running = (await gateway.http.post("/v1/stress-tests", json=TESTED)).json()["id"]
    body = {"classifiers": ["timm:resnet18"], "seed": 1}
    for name, status, pointer, said in (
        ("f" * 32, 404, "/baseline", "no run"),
        (gate.run_id, 422, "/baseline", "is a gate; name a stress test or a shift benchmark"),
        (small, 422, "/baseline", "too small for a regression set"),
        (running, 409, "/baseline", "has not ended"),
        (several, 422, "/incumbent", "name one of them as the incumbent"),
    ):
        problem = await refused(gateway, ROOT, body | {"baseline": name})
        assert (problem["status"], problem["errors"][0]["pointer"]) == (status, pointer), problem
        assert said in problem["detail"]
    problem = await refused(gateway, ROOT, body | {"baseline": baseline, "incumbent": "nobody"})
    assert problem["errors"][0]["pointer"] == "/incumbent"
    await gateway.http.post(f"/v1/runs/{running}/cancel")


@pytest.mark.fault("B63")
async def test_a_baseline_of_another_suite_is_refused(
    gateway: FakeGateway, baseline: str, folder: Path
) -> None:
    other = fake_suite().model_copy(update={"name": "lance"})
    ledger = Ledger(f"sqlite:///{folder}/ledger.db")
    async with fake_gateway(folder, suite=other, ledger=ledger) as lance:
        problem = await refused(
            lance, ROOT, {"baseline": baseline, "classifiers": ["timm:resnet18"], "seed": 1}
        )
    assert problem["errors"][0]["pointer"] == "/baseline"
    assert "was made with the suite 'miniature', and this gateway runs 'lance'" in problem["detail"]
