"""Operations that need masks, where a suite's segmenter makes those that images lack."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.scorer import Segment, SegmentItem
from counterpose_core.contract.stress_test_estimates import StressTestEstimate
from counterpose_core.suite import SegmenterSuite, load_suite
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeScorer, fake_services
from fakes.world import FakeWorld
from integration.gateway.test_masks import ByRecipe, body, recipes, source, summed_up, uploaded

SUITE = load_suite("photographs").model_copy(update={"segmenter": SegmenterSuite(model="world")})
OBJECT = ["background-grey", "background-other-class"]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=ByRecipe(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as made:
        yield made


def scorer_of(gateway: FakeGateway) -> FakeScorer:
    scorer: FakeScorer = gateway.services.scorer  # type: ignore[assignment]
    return scorer


def outlines(
    monkeypatch: pytest.MonkeyPatch, gateway: FakeGateway, outline: Callable[[SegmentItem], Segment]
) -> None:
    """Have the fake segmenter see objects otherwise."""
    monkeypatch.setattr(scorer_of(gateway), "outline", outline)


def _unseen(item: SegmentItem) -> SegmentItem:
    return item.model_copy(update={"label": "unseen"})


def _missing(segment: Segment) -> Segment:
    """A mask that misses the known one."""
    return segment if segment.overlap is None else segment.model_copy(update={"overlap": 0.7})


def bare(label: str, number: int) -> dict[str, Any]:
    return source(label, number) | {"mask_base64": None}


async def test_images_without_a_mask_get_one_and_the_finding_says_whose_it_is(gateway: FakeGateway) -> None:
    labels = ("plate", "sled")
    await uploaded(gateway, [bare(label, number) for label in labels for number in range(8)])
    told = await summed_up(gateway, OBJECT, levels=[5])
    assert told.left_out == {}
    assert [(each.operation, each.images, each.left_out) for each in told.figures] == [
        (name, 16, 0) for name in OBJECT
    ]
    assert told.masks is not None
    assert (told.masks.images, told.masks.missing, told.masks.overlap.n) == (16, {}, 0)
    said = (
        "The masks of 16 images are a segmenter's: how good they are is not known, as no image came with one."
    )
    assert all(each.sentence.endswith(said) for each in told.figures)
    assert said in told.lines
    made = [each for each in recipes(gateway) if each.operation == "background-other-class"]
    assert len({each.mask for each in made}) == 16
    # The other photograph's object is taken out by a mask of its own.
    assert all(each.other_mask not in (None, each.mask) for each in made)


async def test_where_some_images_have_masks_the_segmenter_is_held_against_these(gateway: FakeGateway) -> None:
    own = [source("plate", number) for number in range(8)]
    await uploaded(gateway, [*own, *(bare("sled", number) for number in range(8))])
    told = await summed_up(gateway, ["background-grey"], levels=[5])
    assert told.masks is not None
    assert (told.masks.images, told.masks.overlap.n, told.masks.overlap.estimate) == (8, 8, 0.9)
    assert "it overlaps 8 known ones by 0.90 (" in told.masks.sentence


@pytest.mark.parametrize("choice", [{"masks": "own"}, {}])
async def test_no_segmenter_is_asked_where_masks_must_be_own_or_all_images_have_one(
    gateway: FakeGateway, choice: dict[str, object]
) -> None:
    lacking = bare("sled", 0) if choice else source("sled", 0)
    await uploaded(gateway, [lacking, *(source("plate", number) for number in range(8))])
    told = await summed_up(gateway, ["background-grey"], levels=[5], **choice)
    assert told.masks is None
    assert scorer_of(gateway).calls["segment"] == 0
    assert told.figures[0].images == (8 if choice else 9)


async def test_an_object_that_the_segmenter_does_not_see_is_counted_with_its_reason(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = scorer_of(gateway).outline
    outlines(monkeypatch, gateway, lambda item: plain(_unseen(item) if item.label == "sled" else item))
    await uploaded(gateway, [bare(label, number) for label in ("plate", "sled") for number in range(8)])
    told = await summed_up(gateway, ["background-grey"], levels=[5])
    (figure,) = told.figures
    why = "it needs a mask of the object, and the segmenter sees it nowhere"
    assert (figure.images, figure.left_out, figure.reasons) == (8, 8, {why: 8})
    assert told.masks is not None
    assert told.masks.missing == {"the segmenter sees it nowhere": 8}


async def test_masks_that_miss_the_known_ones_are_not_used(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = scorer_of(gateway).outline
    outlines(monkeypatch, gateway, lambda item: _missing(plain(item)))
    own = [source("plate", number) for number in range(8)]
    await uploaded(gateway, [*own, *(bare("sled", number) for number in range(8))])
    told = await summed_up(gateway, ["background-grey", "rotation"], levels=[5])
    figures = {each.operation: each for each in told.figures}
    why = "the segmenter's masks overlap those that are known by 0.70, less than 0.75"
    assert figures["background-grey"].reasons == {why: 8}
    assert (figures["background-grey"].images, figures["rotation"].images) == (8, 16)
    assert told.masks is not None
    assert told.masks.sentence.endswith("; too little, so they are not used.")
    assert "segmenter" not in figures["background-grey"].sentence


async def test_what_is_estimated_has_the_images_whose_mask_is_still_to_come(gateway: FakeGateway) -> None:
    await uploaded(gateway, [bare(label, number) for label in ("plate", "sled") for number in range(3)])
    request = body(["background-grey", "rotation"])
    answer = await gateway.http.post("/v1/stress-tests/estimate", json=request)
    estimated = StressTestEstimate.model_validate_json(answer.content).operations
    await gateway.http.post("/v1/stress-tests", json=request)
    start = len(recipes(gateway))
    await gateway.worker().work_off()
    assert estimated == len(recipes(gateway)) - start
