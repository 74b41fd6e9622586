"""A gate on operations: candidate and incumbent answer the same recipes of a run of operations."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose._cli.gate import judge_gate
from counterpose._cli.junit import gate_junit
from counterpose_core.contract.gates import GateSummary
from counterpose_core.contract.recipes import IDENTITY, Recipe
from counterpose_gateway.webhooks.delivery import gate_summary
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ports import fake_services
from fakes.world import CLASSES, FakeWorld
from integration.gateway.test_operations import BODY, SUITE, MisledByRotation, finished


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=MisledByRotation(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as made:
        yield made


async def gated(gateway: FakeGateway, per_class: int, **changes: object) -> GateSummary:
    """A gate of ``leaning`` against ``steady`` on a run of ``steady`` alone."""
    baseline = await finished(gateway, per_class, classifiers=["steady"])
    frozen = (await gateway.http.post("/v1/gates/freeze", json={"baseline": baseline.run_id})).json()
    body = {"baseline": baseline.run_id, "digest": frozen["digest"], "classifiers": ["leaning"], "seed": 1}
    answer = await gateway.http.post("/v1/gates", json=body | changes)
    assert answer.status_code == 202, answer.text
    run: str = answer.json()["id"]
    await gateway.worker().work_off()
    assert violated(gateway.ledger, run) == []
    answer = await gateway.http.get(f"/v1/runs/{run}/summary")
    assert answer.status_code == 200, answer.text
    return GateSummary.model_validate_json(answer.content)


async def test_a_candidate_fails_under_the_operation_and_levels_that_mislead_it(gateway: FakeGateway) -> None:
    found = await gated(gateway, 20)
    assert found.outcome == "failed"
    overall = {cell.change: cell for cell in found.cells if cell.label is None}
    assert {change: cell.state for change, cell in overall.items()} == {
        "rotation 1": "passed", "rotation 3": "failed", "rotation 5": "failed",
        "gaussian-blur 1": "passed", "gaussian-blur 3": "passed", "gaussian-blur 5": "passed",
        "upside-down": "passed", None: "passed",
        "rotation: failure point": "failed", "gaussian-blur: failure point": "passed",
    }  # fmt: skip
    # It fails two of three levels of each image that the incumbent is right on at all.
    assert overall["rotation: failure point"].regression.estimate == pytest.approx(2 / 3)
    assert all(cell.regression.n == 20 * len(CLASSES) for cell in overall.values())
    # Seven changes, two failure points and the photographs themselves, each also by class.
    assert found.tested == 10 * (1 + len(CLASSES))
    assert found.verdict.startswith(
        "Failed: 15 of 50 cells regress by more than 10 points; leaning under rot"
    )
    assert judge_gate(found).value == 1
    # What the webhook of a gate that ended tells.
    assert gate_summary(gateway.ledger, gateway.store, found.run_id).verdict == found.verdict
    failures = ET.fromstring(gate_junit(found)).findall(".//testcase/failure")
    assert len(failures) == 15
    assert found.config.notes[0].startswith("operations that the baseline does not have")


async def test_before_and_after_are_the_recipes_of_the_baseline(gateway: FakeGateway) -> None:
    found = await gated(gateway, 6, tolerance=0.5)
    answered: list[Recipe] = gateway.services.classifiers.recipes  # type: ignore[attr-defined]
    # Once by the baseline's classifier, and once by candidate and incumbent: the control, too.
    assert set(Counter(str(each) for each in answered if each.operation != "placebo").values()) == {3}
    assert found.examples
    for each in found.examples:
        before, after = Recipe.parsed(each.source), Recipe.parsed(each.image)
        assert (before.operation, after.operation) == (IDENTITY, "rotation")
        assert before.source == after.source


async def test_the_report_and_pages_of_a_gate_on_operations_show_what_recipes_make(
    gateway: FakeGateway,
) -> None:
    run = (await gated(gateway, 6)).run_id
    report = await gateway.http.get(f"/v1/runs/{run}/report")
    assert report.text.count("<symbol id=") >= 2
    # Seven changes of four classes: a wall of text.
    assert report.text.count("<details><summary>Classes that are not tested") == 1
    items = (await gateway.http.get(f"/v1/runs/{run}/items")).json()["items"]
    for path in (f"/ui/runs/{run}", f"/ui/runs/{run}/items"):
        assert (await gateway.http.get(path)).status_code == 200, path
    page = await gateway.http.get(f"/ui/runs/{run}/items/{items[0]['id']}")
    assert page.status_code == 200
    # Before and after, each with the answers of both.
    assert page.text.count("/ui/images/made.webp?recipe=") == 2
    assert page.text.count("<br>leaning: ") == page.text.count("<br>steady: ") == 2


async def test_a_run_of_too_few_photographs_is_no_baseline(gateway: FakeGateway) -> None:
    baseline = await finished(gateway, 2)
    answer = await gateway.http.post("/v1/gates/freeze", json={"baseline": baseline.run_id})
    assert answer.status_code == 422
    assert "no change was kept on 20 source images (gaussian-blur 1 8" in answer.json()["detail"]
    assert BODY["seed"] == baseline.seed
