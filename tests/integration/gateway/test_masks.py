"""Operations that need masks, through the API: who has one, which backgrounds, what is left out and why."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.recipes import Recipe
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_test_estimates import StressTestEstimate
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import TransformSummary
from counterpose_core.suite import load_suite
from counterpose_gateway.methods import METHODS
from counterpose_gateway.runs.large_plans import PlanInputs
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import FakeWorld

SUITE = load_suite("photographs")
CLASSES = ("plate", "sled")
SIDE = 96
BACKGROUNDS = ["background-grey", "background-photograph", "background-same-class", "background-other-class"]


def png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def photograph(number: int) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def square(left: int = 30, size: int = SIDE) -> Image.Image:
    mask = Image.new("L", (size, size))
    mask.paste(255, (left, 30, left + 30, 60))
    return mask


def source(label: str, number: int, **more: object) -> dict[str, Any]:
    index = 100 * CLASSES.index(label) + number
    own = {"filename": f"{number}.png", "label": label, "content_base64": png(photograph(index))}
    return own | {"mask_base64": png(square(10 + index % 40))} | more


class ByRecipe(FakeClassifiers):
    """Wrong on backgrounds of another class and on grey ones from level 3 on; it reads recipes."""

    WRONG: frozenset[str] = frozenset({"background-other-class", "background-grey"})

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.recipes: list[Recipe] = []
        self.labels: dict[str, str] = {}

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        recipe = Recipe.parsed(image) if "/" in image else Recipe(image)
        self.recipes.append(recipe)
        p_true = 0.1 if recipe.operation in self.WRONG and recipe.level >= 3 else 0.9
        rest = (1.0 - p_true) / (len(request.classes) - 1)
        label = self.labels[recipe.source]
        probabilities = [p_true if name == label else rest for name in request.classes]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[:5]
        return Prediction(probabilities=probabilities, top=top)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=ByRecipe(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as made:
        yield made


async def uploaded(gateway: FakeGateway, sources: list[dict[str, Any]], name: str = "demo") -> Any:
    await gateway.http.post("/v1/datasets", json={"name": name})
    answer = await gateway.http.post(f"/v1/datasets/{name}/sources", json={"sources": sources})
    classifiers: ByRecipe = gateway.services.classifiers  # type: ignore[assignment]
    if answer.status_code == 200:
        classifiers.labels |= {each.image: each.label for each in gateway.ledger.datasets.sources(name)}
    return answer


def body(operations: list[str], **choice: object) -> dict[str, Any]:
    transforms = {"operations": operations, "levels": [1, 5]} | choice
    return {"dataset": "demo", "classifiers": ["steady"], "seed": 3, "transforms": transforms}


async def summed_up(gateway: FakeGateway, operations: list[str], **choice: object) -> TransformSummary:
    told = (await gateway.stress_test(body(operations, **choice))).transforms
    assert told is not None
    return told


def recipes(gateway: FakeGateway) -> list[Recipe]:
    classifiers: ByRecipe = gateway.services.classifiers  # type: ignore[assignment]
    return classifiers.recipes


def every(per_class: int) -> Iterator[dict[str, Any]]:
    return (source(label, number) for label in CLASSES for number in range(per_class))


async def test_backgrounds_are_of_other_photographs_and_stand_beside_a_placebo(gateway: FakeGateway) -> None:
    assert (await uploaded(gateway, list(every(6)))).json()["added"] == 12
    told = await summed_up(gateway, BACKGROUNDS)
    known = {each.image: each for each in gateway.ledger.datasets.sources("demo")}
    made = [each for each in recipes(gateway) if each.operation.startswith("background-")]
    for each in made:
        own = known[each.source]
        assert each.mask == own.mask
        if each.operation in ("background-grey", "background-mirrored"):
            assert each.other is None
            continue
        other = known[str(each.other)]
        assert (other.image != own.image, each.other_mask) == (True, other.mask)
        if each.operation != "background-photograph":
            assert (other.label == own.label) == (each.operation == "background-same-class")
    # The levels of an operation have one background, and not all images the same.
    others = {(each.source, each.operation, each.other) for each in made}
    assert len(others) == len({(each.source, each.operation) for each in made})
    assert len({each.other for each in made if each.operation == "background-photograph"}) > 3
    assert {each.operation: each.images for each in told.figures} == dict.fromkeys(BACKGROUNDS, 12)
    worst = told.figures[0]
    assert (worst.state, worst.from_level) == ("breaks", 5)
    placebo = worst.levels[-1].placebo
    assert placebo is not None
    assert (placebo.estimate, placebo.n) == (0.0, 12)
    beside = "The same cut and paste before its own background, mirrored, costs nothing ("
    assert beside in worst.sentence
    assert "may be what hurts" not in worst.sentence
    assert Counter(each.level for each in made if each.operation == "background-mirrored") == {1: 12, 5: 12}


async def test_the_levels_of_backgrounds_and_hidden_objects_are_asked_adaptively(
    gateway: FakeGateway,
) -> None:
    await uploaded(gateway, list(every(18)))
    told = await summed_up(gateway, ["background-grey", "occlusion-object"], levels=None, severity="adaptive")
    assert [(each.operation, each.state) for each in told.figures] == [
        ("background-grey", "breaks"), ("occlusion-object", "cannot-tell"),
    ]  # fmt: skip
    # The placebo of the cut stands beside the level that is claimed.
    (level,) = told.figures[0].levels
    assert level.level == 3
    assert level.placebo is not None
    assert (level.placebo.estimate, level.placebo.n) == (0.0, level.loss.n)
    assert told.severity is not None
    grey, hidden = told.severity.figures
    assert [each.failing for each in grey.levels] == [0, 0, 36, 0, 0]
    assert (grey.images, hidden.never.estimate) == (36, 1.0)
    assert all(not each.in_full and each.classifications < 0.75 * each.of_grid for each in (grey, hidden))


async def test_where_the_cut_costs_as_much_the_sentence_says_so(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ByRecipe, "WRONG", ByRecipe.WRONG | {"background-mirrored"})
    await uploaded(gateway, list(every(6)))
    told = await summed_up(gateway, ["background-grey"])
    assert told.figures[0].sentence.endswith("points): the cut itself may be what hurts.")


async def test_the_report_shows_backgrounds_and_their_placebo(gateway: FakeGateway) -> None:
    await uploaded(gateway, list(every(6)))
    answer = await gateway.http.post("/v1/stress-tests", json=body(BACKGROUNDS))
    await gateway.worker().work_off()
    page = await gateway.http.get(f"/v1/runs/{answer.json()['id']}/report")
    assert page.status_code == 200, page.text
    assert "the same cut and paste before its own background, mirrored, costs 0" in page.text
    assert page.text.count("<symbol id=") >= 2


async def test_the_same_seed_chooses_equal_backgrounds_and_another_seed_others(
    gateway: FakeGateway,
) -> None:
    await uploaded(gateway, list(every(6)))
    chosen = []
    for seed in (3, 3, 4):
        start = len(recipes(gateway))
        request = body(["background-photograph"]) | {"seed": seed}
        await gateway.http.post("/v1/stress-tests", json=request)
        await gateway.worker().work_off()
        chosen.append({each.source: each.other for each in recipes(gateway)[start:] if each.other})
    assert chosen[0] == chosen[1] != chosen[2]


async def test_a_group_never_gives_itself_a_background(gateway: FakeGateway) -> None:
    frames = [source("plate", number, group="film") for number in range(5)]
    await uploaded(gateway, [*frames, source("sled", 1), source("sled", 2)])
    told = await summed_up(gateway, ["background-photograph", "background-same-class"])
    by_image = {each.image: each for each in gateway.ledger.datasets.sources("demo")}
    for each in recipes(gateway):
        if each.other and by_image[each.source].group:
            assert by_image[each.other].group is None
    figure = next(each for each in told.figures if each.operation == "background-same-class")
    assert (figure.images, figure.left_out) == (2, 5)
    assert list(figure.reasons.values()) == [5]
    assert "another photograph of the class, with a mask, and there is none" in next(iter(figure.reasons))


async def test_images_without_a_mask_are_counted_and_the_others_are_tested(gateway: FakeGateway) -> None:
    bare = [source("sled", number, mask_base64=None) for number in range(10, 13)]
    await uploaded(gateway, [*every(4), *bare])
    told = await summed_up(gateway, ["background-grey", "occlusion-object", "rotation"])
    figures = {each.operation: each for each in told.figures}
    for name in ("background-grey", "occlusion-object"):
        assert (figures[name].images, figures[name].left_out) == (8, 3)
        assert figures[name].reasons == {"it needs a mask of the object, which the image has not": 3}
    assert (figures["rotation"].images, figures["rotation"].left_out) == (11, 0)
    assert told.left_out == {}


async def test_where_no_image_has_a_mask_the_operation_is_left_out_by_name(gateway: FakeGateway) -> None:
    await uploaded(gateway, [source(label, 1, mask_base64=None) for label in CLASSES])
    told = await summed_up(gateway, ["background-grey", "rotation"])
    assert told.left_out == {"background-grey": "it needs a mask of the object, and no image has one"}
    assert [each.operation for each in told.figures] == ["rotation"]


async def test_a_run_that_names_no_operation_hides_object_and_background_where_masks_are(
    gateway: FakeGateway,
) -> None:
    await uploaded(gateway, [*every(2), source("sled", 9, mask_base64=None)])
    request = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}
    answer = await gateway.http.post("/v1/stress-tests", json=request)
    start = len(recipes(gateway))
    await gateway.worker().work_off()
    made = recipes(gateway)[start:]
    masked = Counter(each.operation for each in made if each.mask is not None)
    assert masked == {"background-grey": 4 * 3, "background-mirrored": 4 * 3, "occlusion-object": 4 * 3}
    summary = await gateway.http.get(f"/v1/runs/{answer.json()['id']}/summary")
    told = StressTestSummary.model_validate_json(summary.content).transforms
    assert told is not None
    assert (told.tested, told.left_out) == (22, {})
    # As docs/how-to/photographs.md says.
    assert len(made) == 5 * 56 + 4 * 9


async def test_where_no_other_photograph_fits_the_operation_is_left_out_by_name(gateway: FakeGateway) -> None:
    await uploaded(gateway, [source("plate", 1), source("sled", 1)])
    told = await summed_up(gateway, BACKGROUNDS)
    assert list(told.left_out) == ["background-same-class"]
    assert "of the class, with a mask, and there is none" in told.left_out["background-same-class"]


async def test_photographs_of_another_dataset_become_backgrounds(gateway: FakeGateway) -> None:
    await uploaded(gateway, list(every(2)))
    scenes = [source("plate", number, mask_base64=None) for number in range(50, 52)]
    await uploaded(gateway, scenes, "scenes")
    told = await summed_up(gateway, ["background-photograph", "background-other-class"], backgrounds="scenes")
    assert [each.images for each in told.figures] == [4, 4]
    taken = {each.image for each in gateway.ledger.datasets.sources("scenes")}
    others = {each.other for each in recipes(gateway) if each.operation == "background-photograph"}
    assert others <= taken
    # Classes are the dataset's own: these backgrounds have none of them.
    others = {each.other for each in recipes(gateway) if each.operation == "background-other-class"}
    assert others <= {each.image for each in gateway.ledger.datasets.sources("demo")}
    refused = await gateway.http.post("/v1/stress-tests", json=body(["rotation"], backgrounds="sceens"))
    assert (refused.status_code, "did you mean 'scenes'" in refused.text) == (404, True)


async def test_what_is_estimated_is_what_is_made(gateway: FakeGateway) -> None:
    await uploaded(gateway, [*every(2), source("sled", 9, mask_base64=None)])
    request = body(["background-grey", "rotation"], excluded={"plate": ["rotation"]})
    answer = await gateway.http.post("/v1/stress-tests/estimate", json=request)
    estimated = StressTestEstimate.model_validate_json(answer.content).operations
    await gateway.http.post("/v1/stress-tests", json=request)
    start = len(recipes(gateway))
    await gateway.worker().work_off()
    assert estimated == len(recipes(gateway)) - start == 5 * 2 + 4 * (2 + 2) + 3 * 2


async def test_an_operation_that_a_class_excludes_is_counted_with_its_reason(gateway: FakeGateway) -> None:
    await uploaded(gateway, list(every(3)))
    told = await summed_up(
        gateway, ["rotation", "background-grey"], excluded={"plate": ["rotation", "background-grey"]}
    )
    for figure in told.figures:
        assert (figure.images, figure.left_out) == (3, 3)
        assert figure.reasons == {"the request excludes it for its class": 3}
    # A placebo is made where its operation is.
    assert sum(each.operation == "background-mirrored" for each in recipes(gateway)) == 3 * 2


async def test_a_class_that_is_called_by_a_digit_is_not_turned(gateway: FakeGateway) -> None:
    await uploaded(gateway, [source("plate", 1), source("sled", 1) | {"label": "6"}])
    told = await summed_up(gateway, ["upside-down", "darker"])
    figures = {each.operation: each for each in told.figures}
    assert figures["upside-down"].reasons == {"it may change the label of digits": 1}
    assert figures["darker"].reasons == {}


async def test_an_operation_excluded_for_all_classes_is_left_out_by_name(gateway: FakeGateway) -> None:
    await uploaded(gateway, list(every(2)))
    excluded = {name: ["rotation"] for name in CLASSES}
    told = await summed_up(gateway, ["rotation", "darker"], excluded=excluded)
    assert told.left_out == {"rotation": "it is excluded for every class of the dataset"}
    refused = await gateway.http.post("/v1/stress-tests", json=body(["rotation"], excluded=excluded))
    assert refused.status_code == 422
    assert "no operation is left: 'rotation' is left out" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"excluded": {"slde": ["rotation"]}}, "the dataset has no class 'slde' (did you mean 'sled'?)"),
        ({"excluded": {"sled": ["rotatoin"]}}, "did you mean 'rotation'"),
        ({"levels": [0]}, "greater than or equal to 1"),
        ({"levels": [6]}, "less than or equal to 5"),
    ],
)
async def test_what_the_dataset_or_the_table_lacks_is_refused_by_name(
    gateway: FakeGateway, choice: dict[str, Any], sentence: str
) -> None:
    await uploaded(gateway, list(every(1)))
    answer = await gateway.http.post("/v1/stress-tests", json=body(["rotation"], **choice))
    assert answer.status_code == 422
    assert sentence in answer.text


async def test_a_plan_made_again_takes_the_same_masks_and_backgrounds(gateway: FakeGateway) -> None:
    await uploaded(gateway, list(every(3)))
    await uploaded(gateway, [source("plate", number, mask_base64=None) for number in (50, 51)], "scenes")
    request = body(BACKGROUNDS, backgrounds="scenes", excluded={"sled": ["background-grey"]})
    run = Run.model_validate_json((await gateway.http.post("/v1/stress-tests", json=request)).content)
    planned = []
    while (group := gateway.ledger.items.lease("worker", seconds=60.0, run_id=run.id)) is not None:
        planned += [(item.ordinal, item.item_key, item.instruction) for item in group.items]
    # What comes after the request stands behind nothing.
    await uploaded(gateway, [source("plate", number) for number in range(20, 30)])
    rest_of_plan = METHODS["stress-test"].rest_of_plan
    assert rest_of_plan is not None
    inputs = PlanInputs({"demo": 6, "scenes": 2}, gateway.ledger, gateway.store)
    for first in (0, 4):
        again = [(each.ordinal, each.item_key, each.instruction) for each in rest_of_plan(run, inputs, first)]
        assert again == sorted(planned)[first:]
