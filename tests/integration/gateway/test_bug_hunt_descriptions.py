"""Descriptions of the user's own, measured by child runs of a hunt, or by a run without a search."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose import AsyncBugHunt, AsyncClient
from counterpose_core.bug_hunt.comparison import FailureCounts, above_baseline
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.runs import Run
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import hunted_services
from fakes.ledgers import Clock
from fakes.world import Shown, fake_suite

ROOT = "/v1/bug-hunts"
SNOW = "a photo of a plate in the snow"
SAND = "a photo of a plate on the sand"
BODY: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate", "sled"], "budget": {"images": 200},
    "descriptions": [SNOW, SAND], "held_out": 48, "seed": 5,
}  # fmt: skip

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("hunts"), Clock(), ports=hunted_services) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def measured(gateway: FakeGateway) -> BugHuntSummary:
    """Two descriptions of plates without a search, one of which is a bug."""
    answer = await gateway.http.post(ROOT, json=BODY)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    summary = await gateway.http.get(f"/v1/runs/{Run.model_validate_json(answer.content).id}/summary")
    return BugHuntSummary.model_validate_json(summary.content)


@pytest.mark.paper("BUGS-S3-known")
async def test_each_description_is_tested_for_each_classifier_beside_the_label_alone(
    measured: BugHuntSummary, gateway: FakeGateway
) -> None:
    found = {(bug.description, bug.classifier): bug for bug in measured.bugs}
    assert set(found) == {(text, name) for text in (SNOW, SAND) for name in ("steady", "leaning")}
    bug = found[SNOW, "leaning"]
    assert (bug.state, bug.words, bug.held_out.made, bug.baseline.made) == ("breaks", "snow", 48, 48)
    assert bug.discovery.rate.n == 0
    assert {each.state for key, each in found.items() if key != (SNOW, "leaning")} <= {"holds", "cannot-tell"}
    # No search: held-out images of two descriptions and of their label alone.
    items = list(gateway.ledger.items.of(measured.run_id, HuntItem))
    assert {item.instruction.phase for item in items if item.instruction is not None} == {"held-out"}
    assert measured.images == len(items) == 3 * 48
    assert measured.verdict == bug.sentence
    assert {each.source for each in measured.hypotheses} == {"user"}
    assert "has one generator" in measured.config.notes[0]


@pytest.mark.paper("BUGS-S4.1-generators")
async def test_a_gateway_with_another_generator_measures_the_same_description(
    measured: BugHuntSummary, tmp_path: Path
) -> None:
    bug = next(each for each in measured.bugs if each.state == "breaks")
    suite = fake_suite()
    other = suite.editor.model_copy(update={"model": "another-generator"})
    second = suite.model_copy(update={"name": "second", "editor_part": other})
    async with fake_gateway(tmp_path, Clock(), ports=hunted_services, suite=second) as gateway:
        hunt = await AsyncClient(http=gateway.http).bug_hunts.create(
            classifiers=[bug.classifier], labels=[bug.label], descriptions=[bug.description],
            held_out=48, seed=9,
        )  # fmt: skip
        await gateway.worker().work_off()
        found = (await hunt.summary()).bugs[0]
        config = (await hunt.summary()).config
    assert (found.description, found.words, found.state) == (bug.description, bug.words, "breaks")
    assert (config.suite, config.models["editor"]) == ("second", "another-generator")
    assert measured.config.models["editor"] != "another-generator"
    # Other images: nothing of the first gateway's is there.
    assert not {image.image for image in found.images} & {image.image for image in bug.images}


async def test_the_test_is_corrected_over_descriptions_and_classifiers(measured: BugHuntSummary) -> None:
    worst = measured.bugs[0]
    assert worst.p_adjusted is not None
    fisher = 4 * above_baseline(
        FailureCounts(worst.held_out.failures, worst.held_out.rate.n),
        FailureCounts(worst.baseline.failures, worst.baseline.rate.n),
    )
    assert worst.p_adjusted == pytest.approx(fisher)


@pytest.mark.paper("BUGS-S3-user-edit")
async def test_a_hunt_s_user_measures_an_edit_with_one_call_on_fresh_images(
    measured: BugHuntSummary, gateway: FakeGateway
) -> None:
    client = AsyncClient(http=gateway.http)
    hunt = await client.runs.get(measured.run_id)
    assert isinstance(hunt, AsyncBugHunt)
    first = await hunt.measure("a plate in the snow at night", images=24)
    second = await hunt.measure("a plate in the snow at night", images=24)
    await gateway.worker().work_off()
    bugs = await first.bugs(proven=False)
    assert {(bug.description, bug.held_out.made) for bug in bugs} == {("a plate in the snow at night", 24)}
    assert first.run.parent == second.run.parent == measured.run_id
    configs = [BugHuntSummary.model_validate(await each.summary()).config for each in (first, second)]
    assert [each.request.labels for each in configs] == [["plate"], ["plate"]]
    # Another child draws other images, and none has the hunt's own.
    assert len({each.request.seed for each in configs} | {BODY["seed"]}) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a photo of a plate next to a sled", "names another class, 'sled'"),
        ("a photo of a boat in the snow", "names none of 'plate'"),
        ("a photo of a plate", "adds nothing to 'plate'"),
        ("a photo of a plate on the zyx", "cannot draw 'a photo of a plate on the zyx': 'zyx' is no word"),
        ("a plate <b>in</b> the snow", "description"),
    ],
)
async def test_what_is_no_description_of_the_label_is_refused_by_its_place(
    measured: BugHuntSummary, gateway: FakeGateway, text: str, said: str
) -> None:
    plates = BODY | {"labels": ["plate"], "descriptions": [SNOW, text]}
    child = f"/v1/runs/{measured.run_id}/descriptions", {"descriptions": [SNOW, text]}
    for path, body in ((ROOT, plates), child):
        answer = await gateway.http.post(path, json=body)
        problem = answer.json()
        assert answer.status_code == 422, problem
        (named,) = problem["errors"]
        assert named["pointer"] == "/descriptions/1", problem
        assert said in named["detail"], problem


async def test_a_hunt_that_goes_on_has_no_children_yet(gateway: FakeGateway) -> None:
    run = Run.model_validate_json((await gateway.http.post(ROOT, json=BODY)).content)
    answer = await gateway.http.post(f"/v1/runs/{run.id}/descriptions", json={"descriptions": [SNOW]})
    assert (answer.status_code, answer.json()["code"]) == (409, "run-not-ended")
    await gateway.worker().work_off()


async def test_a_budget_below_the_prompts_is_refused_with_the_number_that_would_do(
    gateway: FakeGateway,
) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | {"budget": {"images": 143}})
    assert answer.status_code == 422
    assert "allow 144" in answer.json()["detail"]


async def test_a_rule_decides_how_many_images_a_description_has(gateway: FakeGateway) -> None:
    body = BODY | {"descriptions": [SNOW], "sampling": {"name": "inverse", "failures": 8}, "held_out": 96}
    run = Run.model_validate_json((await gateway.http.post(ROOT, json=body)).content)
    await gateway.worker().work_off()
    summary = BugHuntSummary.model_validate_json(
        (await gateway.http.get(f"/v1/runs/{run.id}/summary")).content
    )
    bug = next(each for each in summary.bugs if each.classifier == "leaning")
    assert bug.state == "breaks"
    # Eight failures of `leaning` came early; `steady` was given up before the most that it might have had.
    assert bug.held_out.failures >= 8
    assert bug.held_out.rate.n < bug.held_out.made <= 96


async def upload(gateway: FakeGateway, name: str, place: str, images: int) -> None:
    """A dataset of photographs of plates in one place."""
    made = await gateway.http.post("/v1/datasets", json={"name": name, "classes": ["plate", "sled"]})
    assert made.status_code == 201, made.text
    refs = [
        gateway.world.add(Shown("plate", f"a photo of a plate {place}"), name, number)
        for number in range(images)
    ]
    sources = [
        {
            "filename": f"{number}.png",
            "label": "plate",
            "content_base64": base64.b64encode(gateway.world.store.get(ref)).decode(),
        }
        for number, ref in enumerate(refs)
    ]
    added = await gateway.http.post(f"/v1/datasets/{name}/sources", json={"sources": sources})
    assert added.status_code in (200, 201), added.text


@pytest.mark.paper("BUGS-X-out-of-distribution")
async def test_a_description_is_checked_on_photographs_of_the_user_s(
    measured: BugHuntSummary, gateway: FakeGateway
) -> None:
    await upload(gateway, "plates-in-snow", "in the snow", 20)
    await upload(gateway, "plates", "on the sand", 24)
    hunt = await AsyncClient(http=gateway.http).bug_hunts.get(measured.run_id)
    photographs = {"described": "plates-in-snow", "alone": "plates"}
    child = await hunt.measure(SNOW, images=24, photographs=photographs)
    await gateway.worker().work_off()
    bugs = {bug.classifier: bug for bug in await child.bugs(proven=False)}
    told = bugs["leaning"].photographs
    assert told is not None
    assert (told.described.rate.n, told.alone.rate.n) == (20, 24)
    assert told.described.failures > 5 * told.alone.failures
    assert told.p < 0.01
    steady = bugs["steady"].photographs
    assert steady is not None
    assert steady.p > 0.05
    # Photographs are none of the images that the hunt made.
    summary = await child.summary()
    assert summary.images == 2 * 24
    report = (await gateway.http.get(f"/v1/runs/{child.id}/report")).text
    assert "your photographs, the label alone" in report


@pytest.mark.parametrize(
    ("changes", "pointer", "said"),
    [
        ({"descriptions": [SNOW, SAND]}, "/photographs", "for one description, and there are 2"),
        ({"photographs": {"described": "nowhere", "alone": "sleds"}}, "/photographs/described", "nowhere"),
        ({"photographs": {"described": "sleds", "alone": "sleds"}}, "/photographs/described", "no image of"),
    ],
)
async def test_photographs_that_cannot_be_compared_are_refused(
    gateway: FakeGateway, measured: BugHuntSummary, changes: dict[str, Any], pointer: str, said: str
) -> None:
    if (await gateway.http.get("/v1/datasets/sleds")).status_code == 404:
        await gateway.http.post("/v1/datasets", json={"name": "sleds", "classes": ["sled"]})
    body = {"descriptions": [SNOW], "photographs": {"described": "sleds", "alone": "sleds"}} | changes
    answer = await gateway.http.post(f"/v1/runs/{measured.run_id}/descriptions", json=body)
    problem = answer.json()
    assert answer.status_code in (404, 422), problem
    (named,) = problem["errors"]
    assert named["pointer"] == pointer
    assert said in named["detail"]
