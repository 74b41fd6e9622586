"""Severity through the API: levels asked adaptively, failure points, claims, ranks, and what is refused."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.recipes import Recipe
from counterpose_core.contract.runs import Item
from counterpose_core.contract.severity import SeverityFigure, SeveritySummary
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.suite import load_suite
from counterpose_gateway.methods.stress_test.transforms.severity.image_answers import share
from counterpose_gateway.methods.stress_test.transforms.summary import summarize_operations
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import CLASSES, FakeWorld

SUITE = load_suite("photographs")
ADAPTIVE = {"operations": ["rotation", "darker", "upside-down"], "severity": "adaptive"}
BODY: dict[str, Any] = {
    "dataset": "demo",
    "classifiers": ["steady", "leaning"],
    "seed": 3,
    "transforms": ADAPTIVE,
}

Right = Callable[[str, Recipe, int], bool]
"""Whether a classifier is right on a recipe's image, of an image with a number from 0 to 9."""


def number(image: str) -> int:
    return int(hashlib.sha256(image.encode()).hexdigest(), 16) % 10


def fails(classifier: str, recipe: Recipe, of: int) -> bool:
    """``leaning`` loses turned images: a tenth at level 1, two tenths at 2, half from 3 on."""
    lost = (0, 1, 2, 5, 5, 5)[recipe.level] if recipe.operation == "rotation" else 0
    return classifier == "steady" or of >= lost


class Failing(FakeClassifiers):
    """Answers recipes as it is told, and notes what it was asked."""

    def __init__(self, world: FakeWorld, right: Right) -> None:
        super().__init__(world)
        self._right = right
        self.asked: dict[str, list[Recipe]] = defaultdict(list)

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        if "/" not in image:
            return super().predict(request, image)
        recipe = Recipe.parsed(image)
        self.asked[request.classifier].append(recipe)
        label = self.world.shown[recipe.source].label
        is_right = self._right(request.classifier, recipe, number(recipe.source))
        rest = [name for name in request.classes if name != label]
        said = label if is_right else rest[0]
        probabilities = [0.9 if name == said else 0.1 / len(rest) for name in request.classes]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[:5]
        return Prediction(probabilities=probabilities, top=top)


@asynccontextmanager
async def answering(folder: Path, right: Right = fails) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=Failing(world, right))

    async with fake_gateway(folder, suite=SUITE, ports=ports) as made:
        yield made


async def finished(gateway: FakeGateway, per_class: int = 24, **changes: object) -> StressTestSummary:
    for name in CLASSES:
        await gateway.upload("demo", per_class, (name,))
    return await gateway.stress_test(BODY | changes)


def told(summary: StressTestSummary) -> SeveritySummary:
    assert summary.transforms is not None
    assert summary.transforms.severity is not None
    return summary.transforms.severity


def figure(summary: StressTestSummary, classifier: str, operation: str) -> SeverityFigure:
    return next(
        each for each in told(summary).figures if (each.classifier, each.operation) == (classifier, operation)
    )


async def test_an_adaptive_run_finds_where_each_image_fails(tmp_path: Path) -> None:
    async with answering(tmp_path) as gateway:
        summary = await finished(gateway)
        asked = gateway.services.classifiers.asked  # type: ignore[attr-defined]
    assert summary.config["notes"] == []
    found = figure(summary, "leaning", "rotation")
    tenths = Counter(
        number(each.source) for each in {Recipe(each.source): each for each in asked["leaning"]}.values()
    )
    assert [level.level for level in found.levels] == [1, 2, 3, 4, 5]
    assert [level.failing for level in found.levels] == [
        tenths[0], tenths[1], tenths[2] + tenths[3] + tenths[4], 0, 0,
    ]  # fmt: skip
    assert found.never.estimate == pytest.approx(1 - sum(tenths[each] for each in range(5)) / found.images)
    assert (found.in_full, found.right) == (False, found.images)
    assert found.classifications < 0.65 * found.of_grid
    # One level alone is asked of each image.
    assert figure(summary, "steady", "upside-down").never.estimate == 1.0


async def test_no_image_is_asked_a_level_twice_and_the_tenth_is_asked_all(tmp_path: Path) -> None:
    async with answering(tmp_path) as gateway:
        summary = await finished(gateway)
        asked = gateway.services.classifiers.asked  # type: ignore[attr-defined]
        config = StressTestConfig.model_validate(summary.config)
        items = [each for each in gateway.ledger.items.of(summary.run_id, Item) if each.stage == 1]
    full = {each.source_image for each in items if share(config, each.item_group) == "full"}
    for recipes in asked.values():
        levels = Counter((each.source, each.operation, each.level) for each in recipes if each.level)
        assert set(levels.values()) == {1}
        by_image = Counter(source for source, operation, _ in levels if operation == "rotation")
        assert full
        assert all(by_image[source] == 5 for source in full)
        assert all(by_image[each.source_image] <= 4 for each in items if each.source_image not in full)
    shares = told(summary).shares
    assert shares["full"] == len(full)
    assert sum(shares.values()) == len(items)


async def test_a_claim_is_tested_on_the_half_that_did_not_choose_its_level(tmp_path: Path) -> None:
    def wrong(classifier: str, recipe: Recipe, of: int) -> bool:
        # No failure point asks for what is wrong with nothing changed; a test of accuracy does.
        return (classifier, of) != ("leaning", 9) and fails(classifier, recipe, of)

    async with answering(tmp_path, wrong) as gateway:
        summary = await finished(gateway, per_class=40)
        config = StressTestConfig.model_validate(summary.config)
        items = list(gateway.ledger.items.of(summary.run_id, Item))
        page = (await gateway.http.get(f"/v1/runs/{summary.run_id}/report")).text
    # Images of both stages are shown, before and after.
    assert page.count("<symbol id=") == 6
    tested = {each.source_image for each in items if share(config, each.item_group) == "tested"}
    later = {each.source_image for each in items if each.stage == 2}
    assert later == {image for image in tested if number(image) == 9}
    assert summary.transforms is not None
    worst = summary.transforms.figures[0]
    assert (worst.classifier, worst.operation, worst.state, worst.from_level) == (
        "leaning", "rotation", "breaks", 3,
    )  # fmt: skip
    assert figure(summary, "leaning", "rotation").claimed == 3
    assert worst.images == told(summary).shares["tested"] == len(tested)
    assert (worst.levels[0].lost, worst.levels[0].gained) == (sum(number(each) < 5 for each in tested), 0)
    assert [level.level for level in worst.levels] == [3]
    # What costs nothing is claimed of the last level.
    assert figure(summary, "steady", "darker").claimed == 5
    assert summary.verdicts[0].state == "breaks"


async def test_an_operation_that_is_not_monotone_is_run_in_full(tmp_path: Path) -> None:
    def back(classifier: str, recipe: Recipe, of: int) -> bool:
        return not (
            classifier == "leaning" and recipe.operation == "darker" and recipe.level in (1, 4) and of < 6
        )

    async with answering(tmp_path, back) as gateway:
        summary = await finished(gateway)
    found = figure(summary, "leaning", "darker")
    assert found.monotonicity.rejected
    assert (found.in_full, found.classifications) == (True, found.of_grid)
    assert [level.lost for level in _grid(found)] == [True, False, False, True, False]
    assert not figure(summary, "steady", "darker").in_full
    assert "1 of the operations and classifiers in full" in told(summary).sentence


def _grid(found: SeverityFigure) -> list[Any]:
    class Lost:
        def __init__(self, estimate: float | None) -> None:
            self.lost = (estimate or 0.0) > 0.3

    return [Lost(level.loss.estimate) for level in found.levels]


async def test_images_that_are_wrong_with_nothing_changed_have_no_failure_point(tmp_path: Path) -> None:
    async with answering(tmp_path, lambda classifier, recipe, of: classifier == "steady") as gateway:
        summary = await finished(gateway)
    found = figure(summary, "leaning", "rotation")
    assert (found.right, found.never.estimate, found.never.n) == (0, None, 0)
    assert "right on none of" in found.sentence
    assert found.loss_level.level is None
    assert "is not reached within the levels" in str(found.loss_level)


async def test_levels_with_gaps_and_a_grid_of_them(tmp_path: Path) -> None:
    choice = {"operations": ["rotation"], "levels": [2, 5], "severity": "grid", "severity_loss": 0.3}
    async with answering(tmp_path) as gateway:
        summary = await finished(gateway, transforms=choice)
        report = await gateway.http.get(f"/v1/runs/{summary.run_id}/report")
    found = figure(summary, "leaning", "rotation")
    assert [level.level for level in found.levels] == [2, 5]
    assert (told(summary).shares, found.classifications, found.claimed) == ({}, found.of_grid, None)
    # Half is lost at 5 and a fifth at 2: 0.3 lies a third of the way on.
    assert found.loss_level.level is not None
    assert 2.0 < found.loss_level.level < 5.0
    assert summary.transforms is not None
    assert [level.level for level in summary.transforms.figures[0].levels] == [2, 5]
    (mean,) = (each for each in told(summary).mean_errors if each.classifier == "leaning")
    assert mean.name == "mean error"
    assert told(summary).why_no_mce is not None
    assert "15 corruptions" in (told(summary).why_no_mce or "")
    assert report.status_code == 200


async def test_classifiers_whose_order_turns_round_are_told(tmp_path: Path) -> None:
    def turned(classifier: str, recipe: Recipe, of: int) -> bool:
        return of >= 4 if classifier == "steady" else recipe.operation != "rotation" or recipe.level < 3

    async with answering(tmp_path, turned) as gateway:
        summary = await finished(gateway)
    (ranks,) = (each for each in told(summary).ranks if each.operation == "rotation")
    assert [each.level for each in ranks.levels] == [0, 1, 2, 3, 4, 5]
    assert ranks.levels[0].ranks["leaning"].rank == 1
    assert vars(ranks.levels[5].ranks["leaning"]) == {"rank": 2, "low": 2, "high": 2}
    (change,) = ranks.changes
    assert change.startswith("leaning is more accurate than steady with nothing changed, and less once the")
    assert change in str(summary)


async def test_severity_that_cannot_be_had_is_refused_by_name(tmp_path: Path) -> None:
    async with answering(tmp_path) as gateway:
        await gateway.upload("demo", 2)
        for choice, said in (({"severity": "all"}, "adaptive"), ({"severity_loss": 0.0}, "greater than 0")):
            answer = await gateway.http.post("/v1/stress-tests", json=BODY | {"transforms": choice})
            assert answer.status_code == 422
            assert said in answer.text


async def test_a_run_that_asks_for_no_severity_is_as_it_was(tmp_path: Path) -> None:
    async with answering(tmp_path) as gateway:
        summary = await finished(gateway, per_class=2, transforms={"operations": ["rotation"]})
    assert summary.transforms is not None
    assert summary.transforms.severity is None
    assert "severity" not in summary.config["transforms"]
    assert "severity" not in summary.config["request"]["transforms"]
    assert summary.config["transforms"]["operations"] == {"rotation": [1, 3, 5]}


async def test_an_adaptive_run_is_exported_once_reported_and_not_frozen(tmp_path: Path) -> None:
    async with answering(tmp_path) as gateway:
        summary = await finished(gateway, classifiers=["leaning"])
        report = await gateway.http.get(f"/v1/runs/{summary.run_id}/report")
        frozen = await gateway.http.post("/v1/gates/freeze", json={"baseline": summary.run_id})
    assert report.status_code == 200
    assert "Where images fail" in report.text
    assert '<polyline class="curve"' in report.text
    assert frozen.status_code == 422, frozen.text
    assert "freeze a run with severity 'grid'" in frozen.json()["detail"]


async def test_edits_and_an_adaptive_plan_are_refused_together(tmp_path: Path) -> None:
    async with fake_gateway(
        tmp_path, suite=load_suite("miniature").model_copy(update={"transforms": SUITE.transforms})
    ) as gateway:
        await gateway.upload("demo", 2)
        answer = await gateway.http.post("/v1/stress-tests", json=BODY)
    assert answer.status_code == 422
    assert "ask for 'grid'" in answer.json()["detail"]
    assert "/transforms/severity" in answer.text


async def test_a_proof_joins_the_half_that_did_not_choose_the_level(tmp_path: Path) -> None:
    def lost(classifier: str, recipe: Recipe, of: int) -> bool:
        return not (recipe.operation == "rotation" and recipe.level >= 3 and of < 6)

    choice = ADAPTIVE | {"operations": ["rotation"]}
    async with answering(tmp_path, lost) as gateway:
        summary = await finished(gateway, 12, classifiers=["leaning"], transforms=choice, limit=20)
        config = StressTestConfig.model_validate(summary.config)
        items = list(gateway.ledger.items.of(summary.run_id, Item))
        tested = {each.item_group for each in items if share(config, each.item_group) == "tested"}
        assert summary.transforms is not None
        (found,) = summary.transforms.figures
        assert (found.state, found.images, found.levels[0].level) == ("cannot-tell", len(tested), 5)
        answer = await gateway.http.post(f"/v1/runs/{summary.run_id}/findings/1/prove", json={"images": 25})
        assert answer.status_code == 202, answer.text
        child = StressTestConfig.model_validate(answer.json()["resolved_config"])
        assert child.transforms is not None
        assert (child.transforms.severity, child.transforms.operations) == (None, {"rotation": [5]})
        await gateway.worker().work_off()
        history = (await gateway.http.get(f"/v1/runs/{summary.run_id}/findings/1")).json()
    assert [each["pairs"] for each in history["runs"]] == [len(tested), 25]


async def test_of_a_run_that_is_stopped_between_its_stages_no_claim_is_tested(tmp_path: Path) -> None:
    def wrong(classifier: str, recipe: Recipe, of: int) -> bool:
        return of != 9 and fails(classifier, recipe, of)

    async with answering(tmp_path, wrong) as gateway:
        summary = await finished(gateway, 12)
        run = gateway.ledger.runs.get(summary.run_id)
        first = [each for each in gateway.ledger.items.of(run.id, Item) if each.stage == 1]
    assert run.stage == 2
    config = StressTestConfig.model_validate(summary.config)
    for stopped in (run.model_copy(update={"stage": 1, "state": "cancelled"}), run):
        later = [] if stopped.stage == 1 else [first[0].model_copy(update={"stage": 2, "state": "cancelled"})]
        told = summarize_operations(stopped, [*first, *later], config).transforms
        assert told is not None
        # What bisection asked of that half is not what the others would answer.
        assert told.figures == []
        assert told.severity is not None
        assert told.severity.figures
