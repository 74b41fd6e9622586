"""Images that are not independent: what makes a group, where it goes, and that it counts once."""

from __future__ import annotations

import pytest

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.groups import Grouping, GroupingSummary
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.methods.stress_test import groups
from counterpose_gateway.methods.stress_test.division import LEAST_FRESH, MOST_FRESH, divide
from counterpose_gateway.methods.stress_test.groups import group_sources
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.records.source_table import SourceTable
from fakes.confirmed_runs import staged_run
from fakes.ports import FakeScorer, fake_services
from fakes.runs import planned, stress_test_request
from fakes.world import FakeWorld


def videos(world: FakeWorld, *, frames: int = 2, of: int = 20) -> list[Source]:
    """The given number of videos of each class, in frames."""
    return [
        source.model_copy(update={"group": f"{source.label}-video-{index % of}"})
        for label in ("plate", "sled", "boat", "kite")
        for index, source in enumerate(world.sources(frames * of, (label,)))
    ]


def test_a_group_is_screened_or_kept_as_a_whole() -> None:
    found = divide(stress_test_request(confirm_share=0.5), SourceTable.of(videos(FakeWorld(), frames=3)))
    screened, fresh = ({source.group for source in side} for side in (found.screened, found.fresh))
    assert screened & fresh == set()
    assert (len(screened), len(fresh), len(found.fresh)) == (40, 40, 120)


def test_frames_of_few_videos_are_too_few_to_confirm_with() -> None:
    few = LEAST_FRESH - 1
    found = divide(
        stress_test_request(confirm_share=0.5), SourceTable.of(videos(FakeWorld(), frames=10, of=few))
    )
    assert found.plan is not None
    assert found.plan.reason == (
        f"the largest class has {few} groups of images, and a test on images that the screen does not use "
        "needs 20 of a class, as the suite has no editor settings that draw an image again"
    )


async def test_equal_images_of_a_class_are_a_group_and_join_others() -> None:
    world = FakeWorld()
    first, second, third, other = world.sources(4, ("plate",))
    copy = second.model_copy(update={"image": first.image})
    named = third.model_copy(update={"image": first.image, "group": "video-1"})
    elsewhere = other.model_copy(update={"image": first.image, "label": "kite"})
    table = SourceTable.of([first, copy, named, elsewhere])
    found, grouping = await group_sources(stress_test_request(), table, fake_services(world))
    assert [source.group for source in found] == ["video-1", "video-1", "video-1", None]
    of = {source.id: "video-1" for source in (first, copy, named)}
    assert grouping == Grouping(groups=of, named=1, identical=2)


async def test_independent_images_have_no_groups() -> None:
    world = FakeWorld()
    table = SourceTable.of(world.sources(3))
    found, grouping = await group_sources(stress_test_request(), table, fake_services(world))
    assert ([each.group for each in found], grouping) == ([None] * len(table), None)


class SeesTwins(FakeScorer):
    """Finds two images, of one class or of two, nearly the same."""

    def __init__(self, world: FakeWorld, *images: str) -> None:
        super().__init__(world)
        self.twins = images

    def vector(self, text: str) -> list[float]:
        return super().vector(self.twins[0] if text in self.twins else text)


async def test_near_duplicates_of_a_class_are_found_by_clip_where_asked_for() -> None:
    world = FakeWorld()
    sources = world.sources(4, ("plate", "kite"))
    scorer = SeesTwins(world, *(sources[index].image for index in (0, 2, 5)))
    services = fake_services(world, scorer=scorer)
    request = stress_test_request(near_duplicates=0.97)
    found, grouping = await group_sources(request, SourceTable.of(sources), services)
    together = f"alike-{sources[0].id}"[: len("alike-") + 12]
    assert [source.group for source in found] == [together, None, together, *[None] * 5]
    assert grouping is not None
    assert (grouping.named, grouping.identical, grouping.alike) == (0, 0, 2)
    _, nothing = await group_sources(stress_test_request(), SourceTable.of(sources), services)
    assert nothing is None


async def test_too_many_images_to_compare_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_COMPARED", 7)
    world = FakeWorld()
    table = SourceTable.of(world.sources(2))
    with pytest.raises(InvalidRequest, match="among 7 images, not 8") as refused:
        await group_sources(stress_test_request(near_duplicates=0.97), table, fake_services(world))
    assert refused.value.pointer == "/near_duplicates"


async def test_pairs_of_a_group_count_once_and_the_summary_says_how_many_are_grouped() -> None:
    run = await staged_run(sources=videos)
    await run.work_off()
    of = run.config.grouping.groups if run.config.grouping else {}
    tested = [finding for finding in run.findings() if finding.confirmed]
    assert tested
    for finding in tested:
        shown = [of[pair.source] for pair in finding.pairs]
        assert len(set(shown)) == len(shown)
        assert finding.confirmed is not None
        assert finding.confirmed.loss.n == len(shown)
        assert finding.screened.n_sources <= 10
    summary = run.summary()
    assert summary.grouping == GroupingSummary(groups=80, named=160)
    told = "not independent: 160 images in 80 groups (160 named by the dataset); a group counts once"
    assert told in str(summary)
    page = render(summary, run.run, run.items, run.world.store.get)
    assert f'<p class="note">{told[0].upper()}{told[1:]}.</p>' in page


async def test_of_a_video_one_frame_is_drawn_again() -> None:
    run = await staged_run(sources=lambda world: videos(world, of=8), redraw="virtual")
    await run.work_off()
    of = run.config.grouping.groups if run.config.grouping else {}
    edits = run.of_kind("confirmation", later=True)
    frames = {item.item_group for item in edits}
    assert len({of[frame] for frame in frames}) == len(frames) == 20
    tested = [finding.confirmed for finding in run.findings() if finding.confirmed]
    assert {(found.scope, found.n_sources) for found in tested} == {("images", 5)}


def test_a_long_video_does_not_take_the_places_of_the_others() -> None:
    world = FakeWorld()
    long = [
        source.model_copy(update={"group": "long"}) if index < 200 else source
        for index, source in enumerate(world.sources(240, ("plate",)))
    ]
    found = divide(stress_test_request(confirm_share=0.9), SourceTable.of(long)).fresh
    assert len(found) == MOST_FRESH
    assert len({source.group or source.id for source in found}) >= 36


async def test_groups_of_an_earlier_run_keep_their_names() -> None:
    world = FakeWorld()
    first, second, third, alone = world.sources(4, ("plate",))
    copy = first.model_copy(update={"id": "copy"})
    sources = [copy, first, second, third.model_copy(update={"group": "video-1"}), alone]
    known = {second.id: "alike-x", third.id: "alike-y", first.id: "alike-z"}
    table = SourceTable.of(sources)
    found, grouping = await group_sources(stress_test_request(), table, fake_services(world), known=known)
    assert [source.group for source in found] == ["alike-z", "alike-z", "alike-x", "video-1", None]
    assert grouping is not None
    assert (grouping.named, grouping.identical, grouping.alike) == (1, 2, 1)


async def test_the_screen_counts_a_video_once() -> None:
    world = FakeWorld()
    sources = videos(world, frames=4, of=5)
    run = await staged_run(sources=lambda world: videos(world, frames=4, of=5), confirm=False)
    await run.work_off()
    model = run.summary().models["leaning"]
    assert (model.drop.n, model.overall.n_sources if model.overall else 0) == (20, len(sources))
    assert run.summary().yields["kept"].n > 20


async def test_groups_change_no_items_key() -> None:
    keys = []
    for named in (True, False):
        world = FakeWorld()
        sources = videos(world) if named else world.sources(40)
        config, items = await planned(sources, fake_services(world), confirm=False)
        assert isinstance(config, StressTestConfig)
        keys.append({item.item_key for item in items})
    assert keys[0] == keys[1]
