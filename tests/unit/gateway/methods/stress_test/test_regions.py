"""Regions of edits: bounded by the images' masks or a segmenter's, refused where nothing bounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.editor import EditItem, EditRequest, EditResponse
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.preservation import Preservation, PreservationItem
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.regions import EditRegion
from counterpose_core.contract.scorer import Segment, SegmentRequest, SegmentResponse
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.errors import BadBackendOutput, InvalidRequest
from counterpose_core.field_descriptions import field_description
from counterpose_core.suite import SegmenterSuite
from counterpose_gateway.methods.stress_test.columns import columns_of
from counterpose_gateway.methods.stress_test.export import _of_preservation
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.preservation import summarize_preservation
from fakes import runs
from fakes.confirmed_runs import StagedRun, finished_run
from fakes.ports import FakeEditor, FakeScorer, fake_services
from fakes.recorder import recorded_items
from fakes.runs import planned, states, stress_test
from fakes.world import FakeWorld, fake_suite

UNCHANGED = "c" * 64
SEGMENTER = SegmenterSuite(model="scorer/segmenter")


class Bounded(FakeEditor):
    """Remembers the items that it was asked for, and says by what it kept the rest."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.items: list[EditItem] = []

    async def edit(self, request: EditRequest) -> EditResponse:
        """Also says what bounds each image."""
        self.items += request.items
        made = (await super().edit(request)).model_dump()
        for item, outcome in zip(request.items, made["outcomes"], strict=True):
            for variant in outcome["value"]["variants"]:
                if item.region is not None:
                    variant |= {"confined_by": request.preset.confined_by, "unchanged": UNCHANGED}
        return EditResponse.model_validate(made)


class Leaky(FakeScorer):
    """Sees edits with a region leak; remembers where images were to change."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.regions: list[EditRegion | None] = []
        self.unchanged: list[str | None] = []

    def preserved(self, item: PreservationItem) -> Preservation:
        """Faulty where a region was given."""
        self.regions.append(item.region)
        self.unchanged.append(item.unchanged)
        faults = ["leaked"] if item.region else []
        return super().preserved(item).model_copy(update={"faults": faults})


def masked(world: FakeWorld, number: int = 4, label: str = "sled") -> list[Source]:
    sources = [world.source(label, each) for each in range(number)]
    return [each.model_copy(update={"mask": f"{place + 1:x}" * 64}) for place, each in enumerate(sources)]


def with_a_segmenter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runs,
        "fake_suite",
        lambda **told: fake_suite(**told).model_copy(update={"segmenter": SEGMENTER}),
    )


@pytest.mark.parametrize(
    ("region", "side"), [("object", "inside"), ("background", "outside"), ("mask", "inside")]
)
async def test_each_edit_is_told_its_side_of_the_image_s_own_mask(region: str, side: str) -> None:
    world = FakeWorld()
    sources, editor = masked(world), Bounded(world)
    plan, record = await stress_test(
        world, sources, fake_services(world, editor=editor), confirm=False, region=region
    )
    masks = {each.image: each.mask for each in sources}
    assert editor.items
    assert all(item.region == EditRegion(mask=masks[item.image], edits=side) for item in editor.items)
    kinds = {"edit": 0, "placebo": 0}
    for item in plan:
        result = record.outcomes[f"item-{item.ordinal}"].result
        if item.kind in kinds and result is not None:
            kinds[item.kind] += 1
            assert result.region is not None
            assert result.region.model_dump() == {
                "mask": masks[item.source_image],
                "edits": side,
                "by": "latent",
                "unchanged": UNCHANGED,
            }
    assert all(kinds.values())


@pytest.mark.parametrize(
    ("region", "bare", "told"),
    [
        (
            "background",
            1,
            "1 of 4 images have no mask, one of them in the class 'sled', and the suite 'minia",
        ),
        ("mask", 4, "4 of 4 images have no mask.*'mask' takes those of the dataset alone; upload masks"),
    ],
)
async def test_what_nothing_bounds_is_refused_before_anything_runs(
    region: str, bare: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = FakeWorld()
    if region == "mask":
        with_a_segmenter(monkeypatch)
    sources = [
        each.model_copy(update={"mask": None}) if place < bare else each
        for place, each in enumerate(masked(world))
    ]
    with pytest.raises(InvalidRequest, match=told) as caught:
        await planned(sources, fake_services(world), region=region)
    assert caught.value.pointer == "/region"


async def test_the_segmenter_outlines_what_has_no_mask_and_what_it_does_not_see_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_a_segmenter(monkeypatch)
    world = FakeWorld()
    scorer, editor = FakeScorer(world), Bounded(world)

    def outline(item: Any) -> Any:
        blind = item.image == sources[-1].image
        return FakeScorer.outline(scorer, item.model_copy(update={"label": "unseen"}) if blind else item)

    monkeypatch.setattr(scorer, "outline", outline)
    sources = [*masked(world, 1), *(world.source("sled", each) for each in (1, 2))]
    services = fake_services(world, scorer=scorer, editor=editor)
    plan, record = await stress_test(world, sources, services, confirm=False, region="object")
    assert scorer.calls["segment"] == 2
    assert {item.image for item in editor.items} == {each.image for each in sources[:2]}
    lost = [each for each in record.outcomes.values() if each.reason == "no-region"]
    assert {each.detail for each in lost} == {
        "its region needs a mask of the object, and the segmenter sees it nowhere"
    }
    # The control of an image needs no region.
    done = [item.kind for item in plan if record.outcomes[f"item-{item.ordinal}"].state == "done"]
    assert done.count("reconstruction") == 3


async def test_an_image_that_the_segmenter_cannot_outline_fails_its_edits_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_a_segmenter(monkeypatch)
    world = FakeWorld()
    scorer, [source] = FakeScorer(world), [world.source("sled", 1)]
    problem = Problem.of(BadBackendOutput("the mask is no image"))

    async def fail(request: SegmentRequest) -> SegmentResponse:
        answer = await FakeScorer.segment(scorer, request)
        return answer.model_copy(update={"outcomes": [Outcome[Segment](problem=problem)]})

    monkeypatch.setattr(scorer, "segment", fail)
    services = fake_services(world, scorer=scorer)
    plan, record = await stress_test(world, [source], services, confirm=False, region="object")
    ended = {(item.kind, record.outcomes[f"item-{item.ordinal}"].state) for item in plan}
    assert ended == {("reconstruction", "done"), ("edit", "failed"), ("placebo", "failed")}


async def test_the_segmenter_is_not_asked_where_a_caption_alone_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_a_segmenter(monkeypatch)
    world = FakeWorld()
    scorer = FakeScorer(world)
    services = fake_services(world, scorer=scorer)
    plan, _ = await stress_test(world, world.sources(20), services, region="object")
    edited = {item.item_group for item in plan if item.kind != "caption"}
    assert 0 < scorer.calls["segment"] <= len(edited) < len({item.item_group for item in plan})


@pytest.mark.parametrize(("region", "local_blend"), [("words", True), (None, False)])
async def test_the_region_of_the_words_is_the_local_blend_of_the_preset(
    region: str | None, local_blend: bool
) -> None:
    world = FakeWorld()
    config, items = await planned(
        world.sources(1), fake_services(world), redraw="virtual-quick", region=region
    )
    assert PromptToPromptPreset.of(config.editing).local_blend is local_blend
    assert PromptToPromptPreset.of(config.redraw).local_blend is local_blend  # type: ignore[arg-type]
    assert {item.instruction is None for item in items} == {True}


async def test_edits_with_a_region_are_measured_and_what_leaves_it_is_a_figure() -> None:
    world = FakeWorld()
    scorer = Leaky(world)
    services = fake_services(world, scorer=scorer, editor=Bounded(world))
    plan, record = await stress_test(world, masked(world), services, confirm=False, region="background")
    items = recorded_items(plan, record)
    found = summarize_preservation(columns_of(items), LanceEstimator(3))
    assert found is not None
    shares = found.rows["edit"].shares
    assert (shares["leaked"].estimate, shares["drifted"].estimate) == (1.0, 0.0)
    assert found.rows["control"].shares["leaked"].estimate == 0.0
    assert any("of the edits change what lies outside their region (n=" in line for line in found.lines)
    # The four controls are held against their sources, all else against the control's path.
    assert scorer.regions.count(None) == scorer.unchanged.count(None) == 4
    assert set(scorer.unchanged) == {None, UNCHANGED}
    [edit] = [item.result for item in items if item.kind == "edit" and item.state == "done"][:1]
    assert edit is not None
    assert edit.preservation is not None
    assert _of_preservation(edit.preservation, bounded=True)["preservation leaked"] == 1.0
    assert "preservation leaked" not in _of_preservation(edit.preservation)


async def test_without_a_region_nothing_is_said_of_leaks() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=Leaky(world))
    plan, record = await stress_test(world, masked(world), services, confirm=False, preservation="all")
    found = summarize_preservation(columns_of(recorded_items(plan, record)), LanceEstimator(3))
    assert found is not None
    assert "leaked" not in found.rows["edit"].shares
    assert not any("outside their region" in line for line in found.lines)


async def test_leaks_may_be_refused_where_a_region_is_asked_for() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=Leaky(world))
    asked: dict[str, Any] = {"confirm": False, "refused_faults": ["leaked"]}
    with pytest.raises(InvalidRequest, match="'leaked' is told of edits with a region alone") as caught:
        await planned(masked(world), services, **asked)
    assert caught.value.pointer == "/refused_faults"
    _, record = await stress_test(world, masked(world), services, region="background", **asked)
    assert states(record)["gate-preservation"] > 0


def _masks(run: StagedRun, kinds: Sequence[str]) -> set[tuple[str, str | None]]:
    return {
        (item.item_group, None if item.instruction is None else item.instruction.mask)
        for item in run.items
        if item.kind in kinds and item.stage > 1
    }


async def test_what_a_run_confirms_has_the_region_of_its_image() -> None:
    def sources(world: FakeWorld) -> list[Source]:
        return [
            each.model_copy(update={"mask": f"{place + 1:064x}"})
            for place, each in enumerate(world.sources(20))
        ]

    run = await finished_run(sources=sources, region="background")
    own = {each.id: each.mask for each in sources(FakeWorld())}
    told = _masks(run, ("confirmation", "placebo"))
    assert len(told) == 40
    assert all(mask == own[source] for source, mask in told)
    kept = [item.result for item in run.items if item.kind == "confirmation" and item.state == "done"]
    assert kept
    assert all(result is not None and result.region is not None for result in kept)


@pytest.mark.parametrize(
    ("asked", "recorded"),
    [({}, "background"), ({"region": None}, "background"), ({"region": "object"}, "object")],
)
async def test_a_preset_may_name_the_region_which_the_run_records(
    asked: dict[str, Any], recorded: str
) -> None:
    world = FakeWorld()
    config, items = await planned(masked(world), fake_services(world), preset="lance-region", **asked)
    assert config.request.region == recorded
    # What leaving it out means is said where it is asked for.
    assert "null for that of the preset, else everywhere" in field_description(StressTestCreate, "region")
    assert all(item.instruction for item in items)
    assert config.measures_preservation


@pytest.mark.parametrize("region", ["words", "object", "mask"])
async def test_a_run_that_edits_no_image_takes_no_region(region: str) -> None:
    world = FakeWorld()
    asked: dict[str, Any] = {"max_edits_per_image": 0, "transforms": {"operations": ["rotation"]}}
    with pytest.raises(InvalidRequest, match="no image is edited by its caption; leave region out") as caught:
        await planned(world.sources(2), fake_services(world), confirm=False, region=region, **asked)
    assert caught.value.pointer == "/region"


def test_a_request_without_a_region_is_said_to_take_that_of_its_preset() -> None:
    assert "null for that of the preset, else everywhere" in " ".join(
        field_description(StressTestCreate, "region").split()
    )


def test_a_backend_without_attention_has_no_region_of_words() -> None:
    with pytest.raises(InvalidRequest, match="'images-api' cannot tell where words are") as caught:
        ImagesApiPreset(backend="images-api").confined_to_words()
    assert caught.value.pointer == "/region"


def test_without_a_region_requests_items_and_presets_are_hashed_as_before() -> None:
    item = EditItem(image="a" * 64, caption="a", edited_caption="b")
    bodies = [ImagesApiPreset(backend="images-api"), PromptToPromptPreset(), item, runs.stress_test_request()]
    assert all({"region", "mask"}.isdisjoint(body.model_dump()) for body in bodies)
