"""A stress test whose task says that several classes are right: every page has it by the task's own words.

``leaning`` takes boats in the snow for kites, which are as right here; of its other classes none is.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from counterpose_core.contract.stress_tests import StressTestSummary
from fakes.gateway import FakeGateway, fake_gateway
from fakes.page_runs import BODY
from fakes.pages import text_of
from fakes.world import fake_suite

TASK = {"name": "classification", "acceptable": {"boat": ["kite"]}}
RULE = "images of boat may be answered by kite"
SCORE = "p(right classes)"
PER_CLASS = 8

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    folder: Path = tmp_path_factory.mktemp("several")
    async with fake_gateway(folder, suite=fake_suite(redraw="virtual")) as made:
        await made.upload("demo", PER_CLASS)
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def summary(gateway: FakeGateway) -> StressTestSummary:
    return await gateway.stress_test(BODY | {"task": TASK})


async def report_of(gateway: FakeGateway, run: str) -> str:
    return (await gateway.http.get(f"/v1/runs/{run}/report")).text


async def test_the_report_names_the_score_and_says_what_is_right(
    gateway: FakeGateway, summary: StressTestSummary
) -> None:
    text = text_of(await report_of(gateway, summary.run_id)).replace("\u00a0", " ")
    assert RULE in text
    assert f"On “sled”, {SCORE} goes from 90 % to 10 % on average." in text
    assert f"The number is the change of {SCORE}." in text
    assert [each.sentence for each in summary.insights if f"{SCORE} changes by" in each.sentence]
    for untrue in ("p(sled)", "p(boat)", "p(true class)", "Confidence in"):
        assert untrue not in text


async def test_a_finding_that_only_the_single_label_makes_disappears(
    gateway: FakeGateway, summary: StressTestSummary
) -> None:
    plain = await gateway.stress_test(BODY)
    assert "boat" in {each.object_class for each in plain.findings if each.flipped}
    assert "boat" not in {each.object_class for each in summary.findings if each.flipped}
    assert {"sled", "plate", "kite"} <= {each.object_class for each in summary.findings if each.flipped}


async def test_an_answer_that_is_as_right_is_marked_so(
    gateway: FakeGateway, summary: StressTestSummary
) -> None:
    boat = next(each for each in summary.findings if each.object_class == "boat" and each.pairs)
    page = (await gateway.http.get(f"/ui/runs/{summary.run_id}/items/{boat.pairs[0].edit}")).text
    assert '<span class="guess true"><span>kite</span>' in page
    assert '<span class="guess true"><span>boat</span>' in page
    assert '<span class="guess true"><span>sled</span>' not in page
    assert f'<th scope="col" class="number">{SCORE}</th>' in page


async def test_the_page_of_a_finding_names_the_score(
    gateway: FakeGateway, summary: StressTestSummary
) -> None:
    tested = next(each for each in summary.findings if each.confirmed)
    page = (await gateway.http.get(f"/ui/runs/{summary.run_id}/findings/{tested.number}")).text
    assert f"Loss of {SCORE}" in page
    assert f"p({tested.object_class})" not in page


async def test_a_gate_on_its_images_says_what_is_right(
    gateway: FakeGateway, summary: StressTestSummary
) -> None:
    asked = {"baseline": summary.run_id, "classifiers": ["leaning"], "incumbent": "steady", "seed": 3}
    created = (await gateway.http.post("/v1/gates", json=asked)).json()
    await gateway.worker().work_off()
    assert RULE in text_of(await report_of(gateway, created["id"]))


async def test_ones_own_edits_are_told_by_the_score(gateway: FakeGateway) -> None:
    own = {
        "max_edits_per_image": 0,
        "lance_r_edits_per_image": 0,
        "interventions": [{"removed": "grass", "added": "snow"}],
    }
    made = await gateway.stress_test(BODY | own | {"task": TASK})
    text = text_of(await report_of(gateway, made.run_id))
    assert RULE in text
    assert f"The figures are changes of {SCORE}," in text
    assert re.search(r"\w+ loses most with leaning: p\(right classes\) changes by", text)
    assert "true class" not in text
