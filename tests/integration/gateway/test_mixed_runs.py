"""A stress test of edits and operations through the API: one run, one numbering, each with its backend."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from counterpose import AsyncClient
from counterpose._cli.stress_test import stress_test_text
from counterpose_core.contract.proofs import FindingHistory
from counterpose_core.contract.stress_test_estimates import StressTestEstimate
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.suite import TransformsSuite
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.runs.large_plans import PlanInputs
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.pages import text_of
from fakes.ports import fake_services
from fakes.world import CAPTION, FakeWorld, fake_suite
from integration.gateway.test_confirmed_stress_tests import no_planner
from integration.gateway.test_operation_exports import files_of
from integration.gateway.test_operations import MisledByRotation
from integration.gateway.test_plans_made_again import plain, stored

OPERATIONS = {"operations": ["rotation", "upside-down"], "levels": [1, 3]}
EDITS: dict[str, Any] = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 0, "confirm_share": 0.5, "seed": 3,
}  # fmt: skip
BOTH = EDITS | {"transforms": OPERATIONS}
ALONE = {name: EDITS[name] for name in ("dataset", "classifiers", "seed", "lance_r_edits_per_image")} | {
    "max_edits_per_image": 0, "transforms": OPERATIONS,
}  # fmt: skip
CLASSES = ("sled", "boat")
SUITE = fake_suite().model_copy(update={"transforms": TransformsSuite(operations=("fog", "rotation"))})


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=MisledByRotation(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as opened:
        await opened.upload("demo", 20, CLASSES)
        yield opened


async def summed_up(
    gateway: FakeGateway, body: dict[str, Any], path: str = "stress-tests"
) -> StressTestSummary:
    """Start a run, or a child by ``path``, work it off, and return its summary."""
    summary = await gateway.stress_test(body, path)
    assert violated(gateway.ledger, summary.run_id) == []
    return summary


def kinds(gateway: FakeGateway, run_id: str) -> Counter[str]:
    return Counter(item.kind for item in gateway.ledger.items.recorded(run_id))


async def test_a_run_has_the_findings_of_edits_and_of_operations_under_one_numbering(
    gateway: FakeGateway,
) -> None:
    alone = await summed_up(gateway, EDITS)
    both = await summed_up(gateway, BOTH)
    told = both.transforms
    assert told is not None
    # Later stages, their budget and every figure of the edits are those of a run without operations.
    assert gateway.ledger.runs.get(both.run_id).stage == 3
    edited = kinds(gateway, alone.run_id)
    assert kinds(gateway, both.run_id) == edited + Counter({"transforms": 40})
    assert [each.model_copy(update={"backend": None, "pairs": []}) for each in both.findings] == [
        each.model_copy(update={"pairs": []}) for each in alone.findings
    ]
    assert (both.models, both.yields) == (alone.models, alone.yields)
    assert [each.sentence for each in both.insights] == [each.sentence for each in alone.insights]
    assert {each.backend for each in both.findings} == {"prompt-to-prompt"}
    assert {each.backend for each in told.figures} == {"transform"}
    numbers = [*(each.number for each in both.findings), *(each.number for each in told.figures)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(both.findings) == 2
    assert (told.figures[0].operation, told.figures[0].classifier) == ("rotation", "leaning")
    assert told.figures[0].state == "breaks"
    # A run of one kind says nothing of a backend.
    assert "backend" not in alone.model_dump_json(exclude={"config"})


async def test_each_kind_is_corrected_over_its_own_tests_and_the_verdict_is_the_worst(
    gateway: FakeGateway,
) -> None:
    alone = await summed_up(gateway, EDITS)
    both = await summed_up(gateway, BOTH)
    operations = await summed_up(gateway, ALONE)
    assert both.transforms is not None
    assert operations.transforms is not None
    # The same tests, with the same p, in the same family.
    assert [each.levels for each in both.transforms.figures] == [
        each.levels for each in operations.transforms.figures
    ]
    assert both.transforms.tested == operations.transforms.tested == 4
    assert [each.p_adjusted for each in map(_test, both.findings)] == [
        each.p_adjusted for each in map(_test, alone.findings)
    ]
    states = {each.classifier: each.state for each in both.verdicts}
    assert states["leaning"] == "breaks"
    assert states["steady"] == _worse(alone, operations, "steady")
    assert (
        "Edits (prompt-to-prompt) and operations (transform) are corrected apart: 2 tests of changes of "
        "words, 4 of operations." in both.verdict
    )
    assert operations.findings == []
    assert kinds(gateway, operations.run_id) == {"transforms": 40}


def _test(finding: Any) -> Any:
    assert finding.confirmed is not None
    return finding.confirmed


def _worse(one: StressTestSummary, other: StressTestSummary, classifier: str) -> str:
    order = ("breaks", "suspected", "test-unfit", "cannot-tell", "holds")
    states = [each.state for told in (one, other) for each in told.verdicts if each.classifier == classifier]
    return min(states, key=order.index)


async def test_what_operations_alone_break_is_the_verdict(gateway: FakeGateway) -> None:
    body = BOTH | {"edit_types": ["adjective"], "confirm": False}
    both = await summed_up(gateway, body)
    assert both.transforms is not None
    worst = next(each for each in both.verdicts if each.classifier == "leaning")
    first = both.transforms.figures[0]
    assert (worst.state, worst.finding, worst.sentence.startswith(first.sentence)) == (
        "breaks", first.number, True,
    )  # fmt: skip


async def test_where_no_edit_is_kept_the_verdict_is_that_of_operations_and_says_so(
    gateway: FakeGateway,
) -> None:
    both = await summed_up(gateway, BOTH | {"thresholds": {"direction": 0.99}, "confirm": False})
    lines = both.verdict.splitlines()
    assert lines[0] == "1 of 2 models breaks when one thing in the image changes."
    assert lines[1].startswith("No edit of ")
    assert lines[1].endswith("so its edits say nothing about these classifiers.")
    assert "No verdict" not in both.verdict


async def test_report_text_and_pages_say_which_backend_made_a_finding(gateway: FakeGateway) -> None:
    both = await summed_up(gateway, BOTH)
    assert both.transforms is not None
    page = (await gateway.http.get(f"/v1/runs/{both.run_id}/report")).text
    said = text_of(page)
    assert page.count('id="finding-') == len(set(_ids(page))) == 3
    assert "by prompt-to-prompt" in said
    assert "Findings 3 and on are made by the backend transform" in said
    assert "Every operation, level by level" in said
    assert 'id="gallery"' in page
    assert len(_all_ids(page)) == len(set(_all_ids(page)))
    text = stress_test_text(both)
    assert "finding 1 (breaks, by prompt-to-prompt): " in text
    assert "3 breaks, by transform: leaning loses" in text
    for number, backend in ((1, "prompt-to-prompt"), (3, "transform")):
        shown = await gateway.http.get(f"/ui/runs/{both.run_id}/findings/{number}")
        assert shown.status_code == 200
        assert f"by {backend}" in text_of(shown.text)


async def test_the_report_s_table_has_the_findings_of_both_kinds(gateway: FakeGateway) -> None:
    both = await summed_up(gateway, BOTH)
    assert both.transforms is not None
    page = (await gateway.http.get(f"/v1/runs/{both.run_id}/report")).text
    [held] = re.findall(r'download="findings.csv" href="data:[^,]+,([^"]+)"', page)
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(held).decode())))
    told = both.transforms.findings
    assert [int(row["number"]) for row in rows] == list(range(1, told[-1].number + 1))
    assert [row["backend"] for row in rows] == ["prompt-to-prompt"] * 2 + ["transform"] * len(told)
    turned, first = rows[2], told[0].headline
    assert (turned["edit_type"], turned["level"], turned["flipped"]) == ("rotation", "3", str(first.lost))
    assert float(turned["confirmed_low"]) == first.loss.low
    assert turned["sentence"] == told[0].sentence


def _ids(page: str) -> list[str]:
    return [each for each in _all_ids(page) if each.startswith("finding-")]


def _all_ids(page: str) -> list[str]:
    return [part.partition('"')[0] for part in page.split(' id="')[1:]]


async def test_findings_of_both_kinds_are_proven_and_applied(gateway: FakeGateway) -> None:
    both = await summed_up(gateway, BOTH | {"limit": 16})
    told = both.transforms
    assert told is not None
    edits = await _history(gateway, both.run_id, 1)
    assert edits.told.edit_type == "background"
    turned = next(each for each in told.figures if each.state == "cannot-tell")
    history = await _history(gateway, both.run_id, turned.number)
    assert (history.told.edit_type, history.family) == (turned.operation, 6)
    assert [each.planned for each in history.runs] == [16]
    child = await summed_up(gateway, {"images": 20}, f"runs/{both.run_id}/findings/{turned.number}/prove")
    assert child.config["operation_proof"]["number"] == turned.number
    assert kinds(gateway, child.run_id) == {"transforms": 20}
    test = await AsyncClient(http=gateway.http).stress_tests.get(both.run_id)
    by_edit, by_operation = await test.apply(1), await test.apply(turned.number)
    await gateway.worker().work_off()
    assert set(kinds(gateway, by_edit.id)) == {"reconstruction", "placebo", "intervention"}
    assert kinds(gateway, by_operation.id) == {"transforms": 40}
    missing = await gateway.http.get(f"/v1/runs/{both.run_id}/findings/99")
    assert missing.status_code == 404
    assert f"it has {told.figures[-1].number}" in missing.json()["detail"]


async def _history(gateway: FakeGateway, run_id: str, number: int) -> FindingHistory:
    answer = await gateway.http.get(f"/v1/runs/{run_id}/findings/{number}")
    assert answer.status_code == 200, answer.text
    return FindingHistory.model_validate_json(answer.content)


async def test_a_finding_of_one_class_is_numbered_after_both_and_proven(gateway: FakeGateway) -> None:
    both = await summed_up(gateway, BOTH | {"confirm": False, "limit": 32})
    told = both.transforms
    assert told is not None
    assert told.classes is not None
    one = told.classes.findings[0]
    # Without a confirmation the edits have four hints, which have numbers too; then come four operations.
    assert [each.number for each in told.findings] == [5, 6, 7, 8, 9, 10]
    assert (one.number, one.backend, one.operation) == (9, "transform", "rotation")
    assert "(findings 9 to 10)" in told.classes.sentence
    assert (both.pairs_left[one.number], both.least_pairs[one.number]) == (4, 1)
    assert f"9 breaks, by transform: leaning loses 16 of 16 of the class {one.object_class!r}" in str(both)
    page = (await gateway.http.get(f"/v1/runs/{both.run_id}/report")).text
    assert f"counterpose prove {both.run_id[:8]} --finding 9 --images 20<" in page
    before = await _history(gateway, both.run_id, 9)
    assert (before.told.object_class, before.told.backend, before.images_left) == (
        one.object_class, "transform", 4,
    )  # fmt: skip
    # The edits of the class are no images of the operation.
    assert [(each.pairs, each.planned) for each in before.runs] == [(16, 16)]
    child = await summed_up(gateway, {"images": 20}, f"runs/{both.run_id}/findings/9/prove")
    assert kinds(gateway, child.run_id) == {"transforms": 4}
    assert "20 of 20 images answered wrong that were right" in child.verdict


async def test_a_proof_of_an_edit_makes_edits_alone(gateway: FakeGateway) -> None:
    both = await summed_up(gateway, BOTH | {"confirm": False, "limit": 16})
    listed = await _history(gateway, both.run_id, 1)
    assert listed.told.backend == "prompt-to-prompt"
    child = await summed_up(gateway, {"images": 8}, f"runs/{both.run_id}/findings/1/prove")
    assert child.transforms is None
    assert "transforms" not in child.config
    assert child.config["request"].get("transforms") is None
    assert "transforms" not in kinds(gateway, child.run_id)
    joined = await _history(gateway, both.run_id, 1)
    assert joined.finding.confirmed is not None
    assert joined.finding.backend == "prompt-to-prompt"


async def test_exports_and_gates_take_both(gateway: FakeGateway) -> None:
    both = await summed_up(gateway, BOTH | {"classifiers": ["steady"]})
    files = await files_of(gateway, both.run_id, "imagefolder")
    rows = [json.loads(line) for line in files["metadata.jsonl"].decode().splitlines()]
    shifts = Counter(row["shift"] for row in rows)
    assert {"background", "base", "rotation 1", "rotation 3", "upside-down"} <= shifts.keys()
    assert shifts["base"] == shifts["rotation 3"] == 40
    assert "operations on it" in files["README.md"].decode()
    frozen = (await gateway.http.post("/v1/gates/freeze", json={"baseline": both.run_id})).json()
    body = {"baseline": both.run_id, "digest": frozen["digest"], "classifiers": ["leaning"], "seed": 1}
    answer = await gateway.http.post("/v1/gates", json=body)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    gate = await gateway.http.get(f"/v1/runs/{answer.json()['id']}/summary")
    cells = {cell["change"]: cell for cell in gate.json()["cells"] if cell["label"] is None}
    assert (cells["rotation 3"]["state"], cells["upside-down"]["state"]) == ("failed", "passed")
    assert cells["background"]["regression"]["estimate"] > 0.2
    # What the search of edits and the choice of operations leave open are said both.
    notes = " ".join(gate.json()["config"]["notes"])
    assert "is not searched for" in notes
    assert "operations that the baseline does not have" in notes


async def test_a_dry_run_counts_both(gateway: FakeGateway) -> None:
    answer = await gateway.http.post("/v1/stress-tests/estimate", json=BOTH)
    assert answer.status_code == 200, answer.text
    both = StressTestEstimate.model_validate_json(answer.content)
    alone = StressTestEstimate.model_validate_json(
        (await gateway.http.post("/v1/stress-tests/estimate", json=EDITS)).content
    )
    assert both.items == alone.items + 40
    assert both.operations == 40 * (2 + 3)
    assert (both.hypotheses, both.operation_tests) == (alone.hypotheses, 4)
    assert "Operations, corrected apart from the edits, make 200 images." in str(both)
    assert "kept for confirmation" in str(both)


async def test_a_suite_with_both_makes_edits_alone_unless_operations_are_asked_for(
    gateway: FakeGateway,
) -> None:
    alone = await summed_up(gateway, EDITS)
    assert alone.transforms is None
    assert "transforms" not in kinds(gateway, alone.run_id)


async def test_operations_alone_leave_no_field_of_edits_unread(gateway: FakeGateway) -> None:
    answer = await gateway.http.post("/v1/stress-tests", json=ALONE | {"preset": "quick"})
    assert answer.status_code == 422
    assert "preset is for edits of captions, and the request has none" in answer.json()["detail"]


async def test_masks_and_captions_of_the_user_leave_the_edits_as_they_are(gateway: FakeGateway) -> None:
    mask = Image.new("L", (8, 8))
    mask.paste(255, (2, 2, 6, 6))
    content = io.BytesIO()
    mask.save(content, "PNG")
    given = {"mask_base64": base64.b64encode(content.getvalue()).decode()}
    await gateway.http.post("/v1/datasets", json={"name": "masked"})
    sources = [
        gateway.source(label, number) | given | {"caption": CAPTION.format(label=label)}
        for label in CLASSES
        for number in range(20)
    ]
    added = await gateway.http.post("/v1/datasets/masked/sources", json={"sources": sources})
    assert added.status_code in (200, 201), added.text
    alone = await summed_up(gateway, EDITS | {"dataset": "masked"})
    asked = {"operations": ["background-grey", "rotation"], "levels": [3]}
    both = await summed_up(gateway, EDITS | {"dataset": "masked", "transforms": asked})
    assert both.transforms is not None
    assert {each.operation: each.images for each in both.transforms.figures} == {
        "background-grey": 40, "rotation": 40,
    }  # fmt: skip
    assert kinds(gateway, both.run_id) == kinds(gateway, alone.run_id) + Counter({"transforms": 40})
    assert [each.sentence for each in both.findings] == [each.sentence for each in alone.findings]
    assert both.findings


async def test_the_plan_of_both_is_made_again_from_any_item_on(gateway: FakeGateway) -> None:
    answer = await gateway.http.post("/v1/stress-tests", json=BOTH)
    run = gateway.ledger.runs.get(answer.json()["id"])
    whole = stored(gateway, run.id)
    assert STRESS_TEST.rest_of_plan is not None
    edits = sum(item["kind"] != "transforms" for item in whole)
    assert (len(whole) - edits, [item["ordinal"] for item in whole]) == (40, list(range(len(whole))))
    for first in (0, 1, edits - 1, edits, edits + 1, len(whole)):
        again = STRESS_TEST.rest_of_plan(run, PlanInputs({"demo": 40}, gateway.ledger, gateway.store), first)
        assert [plain(item) for item in again] == whole[first:]
    # What an edit is does not depend on the operations beside it, so its key is that of a run of edits.
    alone = (await gateway.http.post("/v1/stress-tests", json=EDITS)).json()["id"]
    assert [each["item_key"] for each in stored(gateway, alone)] == [
        each["item_key"] for each in whole[:edits]
    ]
    # What has ended is a share of the most items, which stays what it is in later stages.
    most = len(whole) + run.resolved_config["confirmation"]["budget"]
    assert [STRESS_TEST.most_items(run.model_copy(update={"stage": stage})) for stage in (1, 2)] == [most] * 2


async def test_images_of_operations_alone_are_left_for_a_proof_of_an_edit(gateway: FakeGateway) -> None:
    alone, both = [await _left_after_the_screen(gateway, body) for body in (EDITS, BOTH)]
    assert alone == {1: 10, 2: 10}
    assert {number: both[number] for number in alone} == alone


async def _left_after_the_screen(gateway: FakeGateway, body: dict[str, Any]) -> dict[int, int]:
    answer = await gateway.http.post("/v1/stress-tests", json=body)
    run_id = answer.json()["id"]
    await gateway.worker(planner=no_planner(gateway)).work_off()
    await gateway.http.post(f"/v1/runs/{run_id}/cancel")
    assert gateway.ledger.runs.get(run_id).state == "cancelled"
    summary = await gateway.http.get(f"/v1/runs/{run_id}/summary")
    return StressTestSummary.model_validate_json(summary.content).pairs_left
