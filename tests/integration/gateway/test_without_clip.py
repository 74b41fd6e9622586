"""Stress tests on a suite whose scorer has no CLIP: they run, and say what was not measured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose._cli.stress_test import stress_test_text
from counterpose_core.contract.runs import Item
from counterpose_core.suite import Suite
from fakes.gateway import FakeGateway, fake_gateway
from fakes.pages import text_of
from fakes.world import CLASSES, fake_suite

TESTED: dict[str, Any] = {
    "dataset": "plain", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 2, "lance_r_edits_per_image": 0, "strength": [0.4], "seed": 3,
}  # fmt: skip
ABSENT = "The suite has no CLIP: no edit was judged by its likeness to its captions"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def without(*models: str) -> Suite:
    """The fakes' suite, whose scorer lacks these models."""
    suite = fake_suite()
    scorer = suite.scorer.model_copy(update=dict.fromkeys(models, ""))
    return suite.model_copy(update={"scorer_part": scorer})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    folder: Path = tmp_path_factory.mktemp("without")
    async with fake_gateway(folder, suite=without("clip", "sentence", "masked_lm")) as opened:
        for classes in (CLASSES[:2], CLASSES[2:]):
            await opened.upload("plain", 24, classes)
        yield opened


async def test_a_run_without_clip_finds_what_one_with_clip_finds(gateway: FakeGateway) -> None:
    summary = await gateway.stress_test(TESTED)
    assert {each.classifier for each in summary.findings if each.state == "breaks"} == {"leaning"}
    assert not any(reason.startswith("gate-") for reason in summary.dropped)
    items = gateway.ledger.items.of(summary.run_id, Item)
    done = [item.result for item in items if item.kind == "edit" and item.result is not None]
    assert done
    assert all(each.scores is None and each.image_features is None for each in done)
    assert gateway.services.scorer.calls["score"] == 0  # type: ignore[attr-defined]


async def test_summary_report_and_terminal_say_what_is_absent(gateway: FakeGateway) -> None:
    summary = await gateway.stress_test(TESTED)
    assert [line.split(":")[0] for line in summary.absent] == [
        "The suite has no CLIP",
        "The suite has no sentence encoder",
    ]
    assert ABSENT in stress_test_text(summary)
    report = await gateway.http.get(f"/v1/runs/{summary.run_id}/report")
    assert ABSENT in text_of(report.text)
    assert "and nothing else decided which to keep" in text_of(report.text)
    assert not {name for name in summary.yields if name.startswith("gate-")}


async def test_the_faults_that_decide_are_named(gateway: FakeGateway) -> None:
    summary = await gateway.stress_test({**TESTED, "refused_faults": ["moved", "ignored"]})
    assert summary.absent[0].endswith("; only these faults dropped one: moved, ignored.")


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"lance_r_edits_per_image": 1}, "/lance_r_edits_per_image"),
        ({"thresholds": {"direction": 0.1}}, "/thresholds/direction"),
        ({"thresholds": {"class_similarity": 0.1}}, "/thresholds/class_similarity"),
        ({"near_duplicates": 0.9}, "/near_duplicates"),
        ({"judges": ["clip", "encoder"]}, "/judges"),
        ({"strength": [0.4, 0.6]}, "/strength"),
    ],
)
async def test_what_needs_an_absent_model_is_refused_by_name(
    gateway: FakeGateway, changes: dict[str, Any], pointer: str
) -> None:
    answer = await gateway.http.post("/v1/stress-tests", json={**TESTED, **changes})
    assert answer.status_code == 422, answer.text
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]
    assert "has no" in answer.text


async def test_a_suite_with_all_models_says_nothing(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as whole:
        await whole.upload("plain", 4)
        summary = await whole.stress_test(TESTED)
        assert summary.absent == []
        assert "absent" not in summary.model_dump()
