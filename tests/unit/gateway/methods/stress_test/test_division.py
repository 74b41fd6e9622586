"""Which sources a stress test screens and which it keeps: shares, draws, and folders that are too small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from counterpose_core.contract.confirmation import ConfirmationPlan
from counterpose_core.contract.datasets import Source
from counterpose_core.stress_test.item_counts import items_per_source
from counterpose_gateway.methods.stress_test import division
from counterpose_gateway.methods.stress_test.division import LEAST_FRESH, Division, divide
from counterpose_gateway.records.source_table import SourceTable
from fakes.confirmed_runs import staged_run
from fakes.ports import fake_services
from fakes.runs import planned, stress_test_request
from fakes.world import FakeWorld


def divided(sources: Sequence[Source], **changes: object) -> Division:
    return divide(stress_test_request(**changes), SourceTable.of(sources))


def plan_of(found: Division) -> ConfirmationPlan:
    assert found.plan is not None
    return found.plan


def labels(sources: SourceTable) -> Counter[str]:
    return Counter(source.label for source in sources)


@pytest.mark.parametrize(("share", "fresh"), [(0.5, 20), (0.3, 12), (0.65, 26)])
def test_each_class_keeps_its_share(share: float, fresh: int) -> None:
    found = divided(FakeWorld().sources(40), confirm_share=share)
    assert set(labels(found.fresh).values()) == {fresh}
    assert set(labels(found.screened).values()) == {40 - fresh}
    assert {source.id for source in found.screened} & {source.id for source in found.fresh} == set()


def test_an_odd_image_goes_to_the_screen() -> None:
    found = divided(FakeWorld().sources(21), confirm_share=0.5)
    assert (set(labels(found.screened).values()), set(labels(found.fresh).values())) == ({11}, {10})


def test_the_seed_draws_the_fresh_sources_whatever_their_order() -> None:
    sources = FakeWorld().sources(20)
    first, again = divided(sources), divided(sources[::-1])
    assert {source.id for source in first.fresh} == {source.id for source in again.fresh}
    assert {source.id for source in first.fresh} != {source.id for source in divided(sources, seed=4).fresh}


def test_a_small_class_is_screened_whole() -> None:
    world = FakeWorld()
    sources = [*world.sources(20, ("plate",)), *world.sources(15, ("kite",))]
    found = divided(sources)
    assert labels(found.fresh) == {"plate": 13}
    assert labels(found.screened) == {"plate": 7, "kite": 15}


def test_a_folder_without_a_large_class_has_one_stage_and_says_why() -> None:
    sources = FakeWorld().sources(15)
    found = divided(sources)
    assert ([one.id for one in found.screened], len(found.fresh)) == ([one.id for one in sources], 0)
    plan = plan_of(found)
    assert plan.reason is not None
    assert plan.reason.startswith("the largest class has 15 images")
    assert "needs 16 of a class, as the suite has no editor settings that draw" in plan.reason
    assert (plan.screened, plan.fresh, plan.budget) == (60, 0, 0)
    assert plan_of(divided(FakeWorld().sources(16))).reason is None
    assert len(divided(FakeWorld().sources(16)).fresh) == 4 * LEAST_FRESH


def test_a_run_of_interventions_alone_has_one_stage() -> None:
    changes = {"max_edits_per_image": 0, "interventions": [{"removed": "grass", "added": "snow"}]}
    assert "no edits are proposed" in str(plan_of(divided(FakeWorld().sources(20), **changes)).reason)


def test_a_run_that_does_not_confirm_has_no_plan_of_it() -> None:
    sources = FakeWorld().sources(20)
    found = divided(sources, confirm=False)
    assert ([one.id for one in found.screened], found.plan) == ([one.id for one in sources], None)


def test_a_large_class_keeps_no_more_than_pairs_can_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "MOST_FRESH", 7)
    found = divided(FakeWorld().sources(20))
    assert set(labels(found.fresh).values()) == {7}
    # The others are not screened either: they were drawn to be kept.
    assert set(labels(found.screened).values()) == {7}


@pytest.mark.parametrize("edits", [1, 3, 5])
def test_the_whole_run_has_no_more_items_than_one_stage(edits: int) -> None:
    sources = FakeWorld().sources(20)
    found, request = (
        divided(sources, max_edits_per_image=edits),
        stress_test_request(max_edits_per_image=edits),
    )
    each = items_per_source(request)
    items = len(found.screened) * each + len(found.fresh) + plan_of(found).budget
    assert items == len(sources) * each


async def test_what_is_planned_first_is_the_screen_and_the_captions_of_the_others() -> None:
    run = await staged_run()
    kinds = Counter(item.kind for item in run.stages[0])
    assert kinds == {"edit": 120, "reconstruction": 40, "placebo": 40, "caption": 40}
    edited = {item.item_group for item in run.stages[0] if item.kind == "edit"}
    captioned = {item.item_group for item in run.stages[0] if item.kind == "caption"}
    assert (len(edited), len(captioned), edited & captioned) == (40, 40, set())
    assert [item.ordinal for item in run.stages[0]] == list(range(240))


async def test_whether_a_run_confirms_changes_no_item_of_the_screen() -> None:
    world = FakeWorld()
    services, sources = fake_services(world), world.sources(20)
    _, alone = await planned(sources, services, confirm=False)
    _, screened = await planned(sources, services)
    _, other_share = await planned(sources, services, confirm_share=0.5)
    keys = {item.item_key for item in alone}
    for plan in (screened, other_share):
        assert {item.item_key for item in plan if item.kind != "caption"} < keys
    small = world.sources(4)
    one_stage, plain = [await planned(small, services, confirm=confirm) for confirm in (True, False)]
    assert one_stage[1] == plain[1]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_share_leaves_images_on_both_sides(share: float) -> None:
    with pytest.raises(ValidationError, match="confirm_share"):
        stress_test_request(confirm_share=share)
