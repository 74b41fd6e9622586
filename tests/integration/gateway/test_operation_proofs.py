"""Proofs of operations: on fresh images alone, joined with the run's own, never on an image twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose import AsyncClient
from counterpose_core.contract.proofs import FindingHistory
from counterpose_core.contract.recipes import IDENTITY, PLACEBO, Recipe
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import OperationFigure
from counterpose_gateway.ledger.datasets.datasets import Datasets
from counterpose_gateway.records.source_table import SourceTable
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import fake_services
from fakes.world import CLASSES, FakeWorld
from integration.gateway.test_operations import SUITE, MisledByRotation, finished

CHANGES = {"operations": ["rotation", "upside-down"], "levels": [1, 3]}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=MisledByRotation(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as opened:
        yield opened


async def small_run(gateway: FakeGateway, per_class: int = 10, limit: int = 4) -> StressTestSummary:
    """A run of few of the dataset's images, on which rotation cannot be decided."""
    return await finished(gateway, per_class, classifiers=["leaning"], transforms=CHANGES, limit=limit)


def of(summary: StressTestSummary, operation: str) -> OperationFigure:
    assert summary.transforms is not None
    return next(each for each in summary.transforms.figures if each.operation == operation)


async def history(gateway: FakeGateway, run: str, number: int) -> FindingHistory:
    answer = await gateway.http.get(f"/v1/runs/{run}/findings/{number}")
    assert answer.status_code == 200, answer.text
    return FindingHistory.model_validate_json(answer.content)


async def prove(gateway: FakeGateway, run: str, number: int, **body: Any) -> Any:
    answer = await gateway.http.post(f"/v1/runs/{run}/findings/{number}/prove", json=body)
    if answer.status_code != 202:
        return answer
    child: str = answer.json()["id"]
    await gateway.worker().work_off()
    summary = await gateway.http.get(f"/v1/runs/{child}/summary")
    assert summary.status_code == 200, summary.text
    return StressTestSummary.model_validate_json(summary.content)


async def test_an_operation_that_cannot_be_decided_is_proven_on_fresh_images(gateway: FakeGateway) -> None:
    run = await small_run(gateway)
    rotation = of(run, "rotation")
    assert (rotation.state, rotation.images) == ("cannot-tell", 4)
    before = await history(gateway, run.run_id, rotation.number)
    assert (before.images_left, before.redraws_left, before.finding.state) == (36, 0, "cannot-tell")
    assert before.images_needed is not None
    assert before.outlook.startswith(f"About {before.images_needed} more images would decide it")
    assert "redraw" not in before.outlook
    recipes: list[Recipe] = gateway.services.classifiers.recipes  # type: ignore[attr-defined]
    seen = {each.source for each in recipes}
    recipes.clear()
    child = await prove(gateway, run.run_id, rotation.number, images=20)
    # One operation at one level, its control and its placebo, on twenty images that the run did not use.
    assert {(each.operation, each.level) for each in recipes} == {
        ("identity", 0),
        ("placebo", 0),
        ("rotation", 3),
    }
    assert len({each.source for each in recipes}) == 20
    assert not seen & {each.source for each in recipes}
    assert child.verdicts[0].state == "breaks"
    assert "24 of 24 images answered wrong that were right" in child.verdict
    (figure,) = child.transforms.figures
    assert (figure.number, figure.state, figure.from_level) == (rotation.number, "breaks", 3)
    after = await history(gateway, run.run_id, rotation.number)
    assert (after.finding.state, after.images_needed, after.outlook) == ("breaks", 0, "")
    assert after.e_value >= after.e_value_needed == pytest.approx(3 / 0.05)
    assert [each.pairs for each in after.runs] == [4, 20]
    assert (await history(gateway, child.run_id, rotation.number)).finding.state == "breaks"


async def test_a_proof_takes_more_than_the_least_loss_of_its_run(gateway: FakeGateway) -> None:
    run = await finished(
        gateway, 10, classifiers=["leaning"], transforms=CHANGES | {"least_loss": 0.95}, limit=4
    )
    rotation = of(run, "rotation")
    child = await prove(gateway, run.run_id, rotation.number, images=20)
    # All of 24 images are lost, and so few do not tell a loss of 100 points from one of 95.
    assert child.config["operation_proof"]["least_loss"] == child.transforms.least_loss == 0.95
    assert child.transforms.figures[0].state == "cannot-tell"
    assert (await history(gateway, run.run_id, rotation.number)).e_value < 20


async def test_an_image_is_never_used_twice_and_no_image_left_is_said(gateway: FakeGateway) -> None:
    run = await small_run(gateway, per_class=1, limit=2)
    number = of(run, "rotation").number
    child = await prove(gateway, run.run_id, number, images=100)
    assert child.transforms.images == 2
    assert "had 2 fresh images, not 100" in child.verdict
    # Two images of its own and two of the run: neither test decides.
    assert child.transforms.figures[0].state == "cannot-tell"
    refused = await prove(gateway, run.run_id, number, images=5)
    assert (refused.status_code, refused.json()["code"]) == (422, "dataset-empty")
    assert "an operation makes the same image again" in refused.json()["detail"]
    told = await history(gateway, run.run_id, number)
    assert told.images_left == 0
    assert "upload more images, or name another dataset" in told.outlook


async def test_images_of_another_dataset_prove_it_but_not_those_that_are_the_same(
    gateway: FakeGateway,
) -> None:
    run = await small_run(gateway, per_class=1)
    number = of(run, "rotation").number
    await gateway.upload("more", 6, CLASSES[:2])
    child = await prove(gateway, run.run_id, number, images=50, dataset="more")
    # The first image of each class is the run's own.
    assert child.transforms.images == 10
    assert child.config["classes"] == run.config["classes"]
    assert run.transforms is not None
    assert child.transforms.among == run.transforms.among


async def test_the_proof_of_a_corruption_at_another_size_than_the_published_one_says_so(
    gateway: FakeGateway,
) -> None:
    noise = {"operations": ["gaussian-noise"], "levels": [3]}
    run = await finished(gateway, 3, classifiers=["leaning"], transforms=noise, limit=2)
    child = await prove(gateway, run.run_id, 1, images=4)
    assert "has Gaussian noise of level 3 (scaled)" in child.verdict


@pytest.mark.parametrize(
    ("number", "status", "sentence"), [(1, 422, "is decided"), (9, 404, "has no finding 9: it has 2")]
)
async def test_what_is_decided_or_not_there_is_not_proven(
    gateway: FakeGateway, number: int, status: int, sentence: str
) -> None:
    run = await finished(gateway, 6, classifiers=["leaning"], transforms=CHANGES)
    refused = await prove(gateway, run.run_id, number, images=5)
    assert refused.status_code == status
    assert sentence in refused.json()["detail"]


async def test_the_page_of_such_a_finding_and_the_report_of_its_proof_are_there(gateway: FakeGateway) -> None:
    run = await small_run(gateway)
    number = of(run, "rotation").number
    before = (await gateway.http.get(f"/ui/runs/{run.run_id}/findings/{number}")).text
    assert "Prove it on" in before
    assert "Loss in its run" in before
    assert "the screen" not in before
    child = await prove(gateway, run.run_id, number, images=20)
    after = (await gateway.http.get(f"/ui/runs/{run.run_id}/findings/{number}")).text
    assert "Evidence of 2 runs" in after
    assert "an operation makes the same image again" in after
    assert "Prove it on" not in after
    for path in (
        f"/ui/runs/{run.run_id}/findings/{number}",
        f"/ui/runs/{child.run_id}",
        f"/ui/runs/{run.run_id}",
    ):
        answer = await gateway.http.get(path)
        assert answer.status_code == 200, (path, answer.text)
    report = (await gateway.http.get(f"/v1/runs/{child.run_id}/report")).text
    assert f"counterpose prove {run.run_id[:4]}" in report


async def test_the_operations_of_the_run_that_one_could_have_asked_about_are_allowed_for(
    gateway: FakeGateway,
) -> None:
    many = {"operations": ["rotation", "darker", "brighter", "fog", "haze"], "levels": [1, 2, 3, 4, 5]}
    run = await finished(gateway, 3, classifiers=["leaning"], transforms=many, limit=2)
    rotation = of(run, "rotation")
    child = await prove(gateway, run.run_id, rotation.number, images=6)
    # Six of six: a test of these images alone would show it.
    assert child.transforms.figures[0].levels[0].p < 0.05
    assert child.transforms.figures[0].state == child.verdicts[0].state == "cannot-tell"
    assert (await history(gateway, run.run_id, rotation.number)).e_value_needed == pytest.approx(25 / 0.05)


async def test_a_finding_of_one_class_is_proven_on_fresh_images_of_that_class_alone(
    gateway: FakeGateway,
) -> None:
    run = await finished(gateway, 16, classifiers=["leaning"], transforms=CHANGES, limit=48)
    assert run.transforms is not None
    assert run.transforms.classes is not None
    figures, classes = run.transforms.figures, run.transforms.classes.findings
    # One list: what is told of all classes comes first and keeps its numbers.
    assert [each.number for each in (*figures, *classes)] == [1, 2, 3, 4, 5, 6]
    assert run.transforms.classes.sentence.endswith("4 losses of a class are shown (findings 3 to 6).")
    number, label = classes[0].number, classes[0].object_class
    assert (run.pairs_left[number], run.least_pairs[number]) == (4, 1)
    assert f"{number} breaks       leaning loses 12 of 12 of the class {label!r}" in str(run)
    page = (await gateway.http.get(f"/v1/runs/{run.run_id}/report")).text
    assert f"{number}. leaning loses 12 of 12 of the class" in page
    assert f"counterpose prove {run.run_id[:8]} --finding {number} --images 20<" in page
    before = await history(gateway, run.run_id, number)
    assert (before.told.object_class, before.told.level, before.images_left) == (label, 3, 4)
    # Four classes, and rotation at two levels beside upside-down at one.
    assert before.e_value_needed == pytest.approx(4 * 3 / 0.05)
    recipes: list[Recipe] = gateway.services.classifiers.recipes  # type: ignore[attr-defined]
    recipes.clear()
    child = await prove(gateway, run.run_id, number, images=20)
    fresh = {each.source for each in recipes}
    assert {gateway.world.shown[each].label for each in fresh} == {label}
    assert len(fresh) == 4
    assert f"loses 100 points of accuracy on the class {label!r} once the image is turned by" in child.verdict
    assert "16 of 16 images answered wrong that were right" in child.verdict
    assert f"had 4 fresh images of {label!r}, not 20" in child.verdict
    assert (child.verdicts[0].finding, child.verdicts[0].state) == (number, "breaks")
    after = await history(gateway, run.run_id, number)
    assert [(each.pairs, each.planned) for each in after.runs] == [(12, 12), (4, 4)]
    assert (after.finding.sentence, after.images_left) == (child.verdicts[0].sentence, 0)
    refused = await prove(gateway, run.run_id, number, images=5)
    assert (refused.status_code, refused.json()["code"]) == (422, "dataset-empty")
    assert f"no image of {label!r} is left" in refused.json()["detail"]
    shown = (await gateway.http.get(f"/ui/runs/{run.run_id}/findings/{number}")).text
    assert f"counterpose apply {run.run_id[:8]} --finding {number}" in shown
    assert "Prove it on" not in shown
    # The other classes have images of their own left.
    assert (await history(gateway, run.run_id, classes[1].number)).images_left == 4
    recipes.clear()
    await AsyncClient(http=gateway.http).stress_tests.apply(run.run_id, number)
    await gateway.worker().work_off()
    changed = {each.source for each in recipes if each.operation not in (IDENTITY, PLACEBO)}
    assert {gateway.world.shown[each].label for each in changed} == {label}


async def test_the_dataset_is_read_only_where_it_may_have_images_that_the_run_has_not(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int | None] = []
    source_table = Datasets.table

    def reading(datasets: Datasets, name: str, *, most: int | None = None) -> SourceTable:
        read.append(most)
        return source_table(datasets, name, most=most)

    run = await finished(gateway, 1, classifiers=["leaning"], transforms=CHANGES)
    monkeypatch.setattr(Datasets, "table", reading)
    test = await AsyncClient(http=gateway.http).stress_tests.get(run.run_id)
    await gateway.upload("demo", 3)
    assert set((await test.summary()).pairs_left.values()) == {8}
    assert (set(run.pairs_left.values()), read) == ({0}, [None])
    every = await finished(gateway, 3, classifiers=["leaning"], transforms=CHANGES)
    assert set(every.pairs_left.values()) == {0}
    assert read[-1] == 0
