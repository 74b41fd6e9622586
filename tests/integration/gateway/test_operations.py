"""A stress test of operations on images through the API: planned, worked off, summed up and reported."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose._cli.stress_test import stress_test_text
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
    Prediction,
)
from counterpose_core.contract.recipes import IDENTITY, Recipe
from counterpose_core.contract.stress_test_estimates import StressTestEstimate
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.suite import load_suite
from counterpose_core.transforms.table import operation
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import CLASSES, FakeWorld

SUITE = load_suite("photographs")
ALL = {"operations": ["rotation", "gaussian-blur", "upside-down"], "levels": [1, 3, 5]}
BODY: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady", "leaning"], "seed": 3, "transforms": ALL}


class MisledByRotation(FakeClassifiers):
    """``leaning`` misses an image that is turned by level 3 or more; it makes no image, but reads recipes."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.recipes: list[Recipe] = []
        self.only: set[str] = set()
        """The images that it misses; empty for all."""

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        """``leaning`` says what its own classes are, one of which the dataset has."""
        found = await super().describe(request)
        own = ["plate", "spoon", "fork"] if request.classifier == "leaning" else None
        return found.model_copy(update={"classes": own})

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        if "/" not in image:
            return super().predict(request, image)
        recipe = Recipe.parsed(image)
        self.recipes.append(recipe)
        of_rotation = (recipe.operation, recipe.level >= 3) == ("rotation", True)
        is_spared = bool(self.only) and recipe.source not in self.only
        misled = request.classifier == "leaning" and of_rotation and not is_spared
        label = self.world.shown[recipe.source].label
        p_true = 0.1 if misled else 0.9
        rest = (1.0 - p_true) / (len(request.classes) - 1)
        probabilities = [p_true if name == label else rest for name in request.classes]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[:5]
        return Prediction(probabilities=probabilities, top=top)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=MisledByRotation(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as made:
        yield made


async def finished(gateway: FakeGateway, per_class: int = 6, **changes: object) -> StressTestSummary:
    for classes in (CLASSES[:2], CLASSES[2:]):
        await gateway.upload("demo", per_class, classes)
    return await gateway.stress_test(BODY | changes)


async def test_the_report_says_that_several_classes_are_right(gateway: FakeGateway) -> None:
    task = {"name": "classification", "acceptable": {"boat": ["kite"]}}
    summary = await finished(gateway, task=task)
    page = (await gateway.http.get(f"/v1/runs/{summary.run_id}/report")).text
    assert page.count("images of boat may be answered by kite") == 1


async def test_an_operation_that_hurts_is_shown_from_the_level_on_at_which_it_does(
    gateway: FakeGateway,
) -> None:
    summary = await finished(gateway)
    told = summary.transforms
    assert told is not None
    worst = told.figures[0]
    assert (worst.classifier, worst.operation, worst.state, worst.from_level) == (
        "leaning",
        "rotation",
        "breaks",
        3,
    )
    assert [(level.level, level.lost, level.shown) for level in worst.levels] == [
        (1, 0, False), (3, told.images, True), (5, told.images, True),
    ]  # fmt: skip
    assert worst.sentence.startswith("leaning loses 100 points of accuracy once the image is turned by ")
    assert (told.tested, told.groups, told.size) == (6, told.images, 512)
    assert (summary.verdicts[0].classifier, summary.verdicts[0].state) == ("leaning", "breaks")
    assert summary.counts["done"] == told.images
    assert "breaks       leaning loses 100 points" in str(summary)
    of_run = summary.run_id[:8]
    again = (
        "counterpose stress-test demo --classifier steady --classifier leaning --max-edits-per-image 0 "
        "--lance-r-edits-per-image 0 --operation rotation --operation gaussian-blur --operation upside-down "
        "--severity grid --size 512 --seed 3"
    )
    shown = stress_test_text(summary)
    assert f"next, from which level on it fails: {again}" in shown.splitlines()
    assert f"compare other models on them: counterpose freeze {of_run} regression-set.json" in shown
    page = (await gateway.http.get(f"/v1/runs/{summary.run_id}/report")).text
    assert f"<code>{again}</code>" in page


async def test_where_nothing_is_shown_the_images_of_the_worst_are(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 6, CLASSES[:2])
    one = next(iter(gateway.ledger.datasets.sources("demo"))).image
    gateway.services.classifiers.only = {one}  # type: ignore[attr-defined]
    summary = await finished(gateway)
    assert summary.transforms is not None
    assert {each.state for each in summary.transforms.figures} == {"cannot-tell"}
    page = (await gateway.http.get(f"/v1/runs/{summary.run_id}/report")).text
    assert page.count('<div class="pair">') == 1
    assert "Answered wrong under 1, and right before:" in page


async def test_every_image_has_a_control_and_a_placebo_and_each_level_once(gateway: FakeGateway) -> None:
    summary = await finished(gateway, per_class=2)
    assert summary.transforms is not None
    asked = gateway.services.classifiers.recipes  # type: ignore[attr-defined]
    of_one = {(each.operation, each.level) for each in asked if each.source == asked[0].source}
    assert of_one == {
        (IDENTITY, 0), ("placebo", 0), ("upside-down", 1),
        *(("rotation", level) for level in (1, 3, 5)), *(("gaussian-blur", level) for level in (1, 3, 5)),
    }  # fmt: skip
    assert len(asked) == len(set(map(str, asked))) * 2
    assert set(summary.transforms.controls) == {"steady", "leaning"}
    assert all(each.estimate == 0.0 for each in summary.transforms.placebos.values())


async def test_a_suite_of_operations_alone_carries_out_its_own(gateway: FakeGateway) -> None:
    summary = await finished(gateway, per_class=1, transforms=None)
    assert SUITE.transforms is not None
    plan = summary.config["transforms"]
    bare = [name for name in SUITE.transforms.operations if not operation(name).needs_mask]
    assert list(plan["operations"]) == bare
    assert list(plan["left_out"]) == ["background-grey", "occlusion-object"]
    assert set(plan["left_out"].values()) == {"it needs a mask of the object, and no image has one"}
    assert plan["operations"]["upside-down"] == [1]
    assert plan["operations"]["rotation"] == [1, 3, 5]


async def test_a_classifier_may_answer_all_of_its_own_classes(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, asked = gateway.services.classifiers, set[int]()
    classify = port.classify

    async def noted(request: ClassifyRequest) -> ClassifyResponse:
        # One image alone only asks whether the classifier takes the classes.
        asked.update({len(request.classes)} if len(request.images) > 1 else ())
        return await classify(request)

    monkeypatch.setattr(port, "classify", noted)
    summary = await finished(
        gateway, per_class=2, classifiers=["leaning"], transforms={"levels": [3], "among": "model"}
    )
    assert summary.transforms is not None
    classes = len(summary.config["classes"])
    assert summary.config["transforms"]["others"] == {"leaning": ["spoon", "fork"]}
    assert summary.transforms.among == {"leaning": classes + 2}
    # Nine in ten of the true class, the rest spread over all that may be answered.
    items = list(gateway.ledger.items.recorded(summary.run_id))
    assert items[0].result is not None
    pair = items[0].result["predictions"]["leaning"]
    assert pair["shown"][1][1] == pytest.approx(0.1 / (classes + 1))
    # The images as they are, too, or their line would be of an easier question than the figures.
    assert asked == {classes + 2}


async def test_of_a_classifier_whose_classes_are_not_known_only_the_dataset_s_are_asked(
    gateway: FakeGateway,
) -> None:
    await gateway.upload("demo", 1)
    body = BODY | {"classifiers": ["steady"], "transforms": {"among": "model"}}
    answer = await gateway.http.post("/v1/stress-tests", json=body)
    assert answer.status_code == 422
    assert "the classes of the classifier 'steady' are not known" in answer.json()["detail"]


async def test_the_report_shows_photographs_before_and_after(gateway: FakeGateway) -> None:
    summary = await finished(gateway)
    answer = await gateway.http.get(f"/v1/runs/{summary.run_id}/report")
    assert answer.status_code == 200, answer.text
    page = answer.text
    assert page.count("<symbol id=") >= 2
    assert "What hurts" in page
    assert "leaning loses 100 points" in page
    assert "No generator is involved" in page
    assert "Single classes" in page
    assert f"counterpose apply {summary.run_id[:8]} --finding 1 --dataset FOLDER" in page
    assert "No class has 9 independent images" in page
    # As a report of edits, it hands its findings and its first screen on.
    held = dict(re.findall(r'download="([^"]+)" href="data:[^,]+,([^"]+)"', page))
    assert set(held) == {"findings.csv", "report.md"}
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(held["findings.csv"]).decode())))
    assert summary.transforms is not None
    assert [row["sentence"] for row in rows] == [each.sentence for each in summary.transforms.findings]
    assert rows[0]["sentence"] in base64.b64decode(held["report.md"]).decode()


@pytest.mark.parametrize(
    ("changes", "pointer", "sentence"),
    [
        ({"transforms": {"operations": ["rotatoin"]}}, None, "did you mean 'rotation'"),
        ({"transforms": {"operations": ["background-grey"]}}, "/transforms", "it needs a mask of the object"),
        ({"transforms": {"levels": [6]}}, "/transforms/levels/0", "less than or equal to 5"),
        ({"transforms": {"size": 8}}, "/transforms/size", "greater than or equal to 32"),
        ({"edit_types": ["background"]}, "/edit_types", "makes none"),
        ({"preset": "quick"}, "/preset", "makes none"),
        ({"max_edits_per_image": 3}, "/max_edits_per_image", "makes none"),
        ({"confirm": False}, "/confirm", "makes none"),
    ],
)
async def test_what_cannot_be_carried_out_is_refused_before_anything_runs(
    gateway: FakeGateway, changes: dict[str, Any], pointer: str | None, sentence: str
) -> None:
    await gateway.upload("demo", 1)
    for path in ("/v1/stress-tests", "/v1/stress-tests/estimate"):
        answer = await gateway.http.post(path, json=BODY | changes)
        assert answer.status_code == 422, answer.text
        assert sentence in answer.text
        if pointer is not None:
            assert pointer in answer.text


async def test_a_suite_without_operations_refuses_them_by_name(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 1)
        answer = await gateway.http.post("/v1/stress-tests", json=BODY)
    assert answer.status_code == 422
    assert "'miniature' has no operations on images" in answer.json()["detail"]
    assert "--suite photographs" in answer.json()["detail"]


async def test_the_services_tell_the_operations_of_the_suite(gateway: FakeGateway) -> None:
    told = (await gateway.http.get("/v1/services")).json()
    assert SUITE.transforms is not None
    assert told["operations"] == list(SUITE.transforms.operations)
    assert told["presets"] == []


async def test_other_methods_are_refused_by_the_service_that_they_need(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    answer = await gateway.http.post(
        "/v1/bug-hunts", json={"labels": ["plate"], "classifiers": ["steady"], "seed": 1}
    )
    assert answer.status_code == 404, answer.text
    assert "has no captioner and no editor and no scorer" in answer.json()["detail"]


async def test_every_page_and_answer_of_such_a_run_is_there(gateway: FakeGateway) -> None:
    summary = await finished(gateway)
    run, pages = summary.run_id, {}
    items = (await gateway.http.get(f"/v1/runs/{run}/items")).json()["items"]
    for path in (
        f"/v1/runs/{run}",
        f"/v1/runs/{run}/items/{items[0]['id']}",
        f"/v1/runs/{run}/results",
        f"/ui/runs/{run}",
        f"/ui/runs/{run}/report",
        f"/ui/runs/{run}/items",
        f"/ui/runs/{run}/items/{items[0]['id']}",
        "/ui",
        "/v1/runs",
    ):
        answer = await gateway.http.get(path, follow_redirects=True)
        pages[path] = answer.status_code, answer.text
    assert {path: status for path, (status, _) in pages.items() if status != 200} == {}
    assert "leaning loses 100 points" in pages[f"/ui/runs/{run}"][1]


async def test_what_is_decided_or_judged_by_thresholds_is_refused_in_a_sentence(gateway: FakeGateway) -> None:
    run = (await finished(gateway)).run_id
    refused = {}
    for path, body in ((f"/v1/runs/{run}/findings/1/prove", {"images": 5}),):
        answer = await gateway.http.post(path, json=body)
        refused[path] = answer.status_code, answer.json()["detail"]
    again = await gateway.http.get(f"/v1/runs/{run}/summary", params={"direction": "0.3"})
    refused["again"] = again.status_code, again.json().get("detail")
    assert {status for status, _ in refused.values()} <= {404, 422}
    assert "finding 1 of run" in refused[f"/v1/runs/{run}/findings/1/prove"][1]
    assert "is decided: leaning loses 100 points" in refused[f"/v1/runs/{run}/findings/1/prove"][1]
    assert "judged by no threshold" in refused["again"][1]


async def test_such_a_run_is_estimated_before_it_is_made(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 2)
    answer = await gateway.http.post("/v1/stress-tests/estimate", json=BODY)
    assert answer.status_code == 200, answer.text
    found = StressTestEstimate.model_validate_json(answer.content)
    assert (found.images, found.items, found.operations) == (8, 8, 8 * 9)
    # Three operations and two classifiers: 2 * 0.525^9 is below 0.05 / 6, and with no least loss 2 * 2^-8.
    assert (found.hypotheses, found.least_pairs) == (6, 9)
    assert "8 images, of which operations make 72" in str(found)
    assert "once 9 images are lost" in str(found)
    assert "8 images can show none" in str(found)
    body = BODY | {"transforms": ALL | {"least_loss": 0}}
    assert (await gateway.http.post("/v1/stress-tests/estimate", json=body)).json()["least_pairs"] == 8


async def test_a_loss_below_the_least_loss_is_told_and_is_no_finding(tmp_path: Path) -> None:
    class HalfMisled(MisledByRotation):
        def predict(self, request: ClassifyRequest, image: str) -> Prediction:
            label = self.world.shown[Recipe.parsed(image).source].label if "/" in image else ""
            other = request.model_copy(update={"classifier": "steady"})
            return super().predict(request if label in CLASSES[:2] else other, image)

    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=HalfMisled(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as gateway:
        found = [
            await finished(gateway, transforms=ALL | {"least_loss": least}, classifiers=["leaning"])
            for least in (0.6, 0.05)
        ]
        page = (await gateway.http.get(f"/v1/runs/{found[0].run_id}/report")).text
    told, shown = (each.transforms for each in found)
    assert told is not None
    assert shown is not None
    rotation = next(each for each in told.figures if each.operation == "rotation")
    assert (told.least_loss, rotation.state, rotation.from_level) == (0.6, "cannot-tell", None)
    assert [(level.shown, level.real) for level in rotation.levels] == [
        (False, False), (False, True), (False, True),
    ]  # fmt: skip
    assert rotation.sentence.startswith("leaning may lose")
    assert "A loss of 50 points (" in rotation.sentence
    assert "not shown to be more than the 60 points that this run calls a break" in rotation.sentence
    assert "<i>50 %</i>" in page
    assert "above 60 % is shown" in page
    assert (shown.figures[0].operation, shown.figures[0].state, shown.figures[0].from_level) == (
        "rotation", "breaks", 3,
    )  # fmt: skip
    # The images of one are the answers of the other.
    assert shown.figures[0].levels[1].loss == rotation.levels[1].loss


async def test_images_too_small_for_an_operation_lose_that_operation_alone(tmp_path: Path) -> None:
    class Small(MisledByRotation):
        def predict(self, request: ClassifyRequest, image: str) -> Prediction:
            if "/gaussian-blur/" in image:
                raise KeyError(image)
            return super().predict(request, image)

    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=Small(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as gateway:
        told = (await finished(gateway)).transforms
    assert told is not None
    assert {each.operation for each in told.figures} == {"rotation", "upside-down"}
    assert all(each.images == told.images for each in told.figures)
    assert list(told.left_out) == ["gaussian-blur"]
    assert "nobody knows what image" in told.left_out["gaussian-blur"]
    assert any(line.startswith("gaussian-blur was left out, as ") for line in told.lines)


async def test_a_class_with_enough_images_has_findings_of_its_own(gateway: FakeGateway) -> None:
    summary = await finished(gateway, per_class=12)
    assert summary.transforms is not None
    classes = summary.transforms.classes
    assert classes is not None
    # Three operations, two classifiers, four classes.
    assert (classes.tested, classes.classes, classes.too_small, classes.least) == (24, 4, 0, 11)
    assert {(each.classifier, each.operation, each.level) for each in classes.findings} == {
        ("leaning", "rotation", 3)
    }
    assert sorted(each.object_class for each in classes.findings) == sorted(CLASSES)
    assert "leaning loses 12 of 12 of the class" in str(summary)
    page = (await gateway.http.get(f"/v1/runs/{summary.run_id}/report")).text
    assert "leaning loses 12 of 12 of the class" in page
