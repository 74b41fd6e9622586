"""Small classes: what is screened, which images are drawn again, from what noise, and what that proves."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.runs import Item
from counterpose_core.stress_test.item_counts import items_per_source
from counterpose_gateway.methods.stress_test.division import LEAST_REDRAWN_CLASS, divide
from counterpose_gateway.methods.stress_test.screen.draws import by_noise
from counterpose_gateway.records.source_table import SourceTable
from fakes.confirmed_runs import StagedRun, finished_run, run_after_screen
from fakes.recorder import lease_all
from fakes.runs import stress_test_request
from fakes.world import FakeWorld

PER_CLASS = 8


def asked(item: Item) -> Instruction:
    assert item.instruction is not None
    return item.instruction


@pytest.fixture(scope="module")
def run() -> StagedRun:
    """A run of eight images a class, at its end; only to be read."""
    return asyncio.run(finished_run(per_class=PER_CLASS, redraw="virtual"))


def test_a_small_class_is_drawn_again(run: StagedRun) -> None:
    edits = run.of_kind("confirmation", later=True)
    assert Counter(asked(item).draw for item in edits).keys() <= {1, 2, 3, 4, 5, 6}
    screened = {item.item_group for item in run.of_kind("edit", later=False)}
    kept = {item.item_group for item in run.of_kind("caption", later=False)}
    assert (len(screened), len(kept), screened & kept) == (16, 16, set())
    # Five images of each class: the four that are fresh, and a screened one.
    edited = {item.item_group for item in edits}
    assert (len(edited & kept), len(edited & screened)) == (16, 4)


def test_the_finding_speaks_of_its_images(run: StagedRun) -> None:
    broken = [finding for finding in run.findings() if finding.state == "breaks"]
    assert {finding.object_class for finding in broken} == {"plate", "sled", "boat", "kite"}
    for finding in broken:
        assert finding.confirmed is not None
        assert (finding.confirmed.scope, finding.confirmed.n_sources) == ("images", 5)
        assert finding.confirmed.n_pairs == finding.confirmed.loss.n == finding.of > 5


def test_every_image_of_a_draw_says_how_it_was_made(run: StagedRun) -> None:
    later = [item for item in run.items if item.stage > 1]
    presets = [
        PromptToPromptPreset.of(item.result.preset) for item in later if item.result and item.result.preset
    ]
    assert len(presets) == len(later)
    assert {(preset.inversion, preset.solver) for preset in presets} == {("virtual", "consistent")}
    noise = defaultdict(set)
    for item, preset in zip(later, presets, strict=True):
        noise[preset.image_seed].add((item.item_group, asked(item).draw, item.kind))
    assert all(len(made) == 1 for made in noise.values())


def test_no_image_is_its_own_pair(run: StagedRun) -> None:
    later = [item for item in run.items if item.stage > 1 and item.result]
    assert len({item.result.image for item in later if item.result}) == len(later)


def test_the_whole_run_has_no_more_items_than_one_stage(run: StagedRun) -> None:
    assert len(run.items) <= 32 * items_per_source(run.config.request)
    plan = run.config.confirmation
    assert plan is not None
    assert (plan.screened, plan.fresh, plan.reason) == (16, 16, None)


async def test_a_stage_of_draws_is_the_same_however_often_it_is_planned() -> None:
    run = await run_after_screen(per_class=PER_CLASS, redraw="virtual")
    first = run.plan_next()
    run.stages.pop()
    assert first
    assert run.plan_next() == first


async def test_the_noise_depends_on_the_draw_and_on_nothing_beside_it() -> None:
    run = await finished_run(per_class=PER_CLASS, redraw="virtual")
    later = [item for stage in run.stages[1:] for item in stage]
    (group, *_) = lease_all(run.config, [item for item in later if item.item_group == later[0].item_group])
    parts = list(by_noise(group, run.config))
    seeds = [config.editing.image_seed for _, config in parts]
    assert len(set(seeds)) == len(parts) > 2
    for part, config in parts:
        alone = list(by_noise(replace(group, items=part.items[:1]), run.config))
        assert [each.editing.image_seed for _, each in alone] == [config.editing.image_seed]
        assert len({item.kind for item in part.items}) == 1


@pytest.mark.parametrize(("per_class", "kept"), [(3, 0), (4, 8), (5, 8), (12, 24), (40, 80), (47, 120)])
def test_a_class_is_divided_from_four_images_on(per_class: int, kept: int) -> None:
    found = divide(stress_test_request(), SourceTable.of(FakeWorld().sources(per_class)), redraws=True)
    assert found.plan is not None
    assert len(found.fresh) == kept
    assert (found.plan.reason is None) == (per_class >= LEAST_REDRAWN_CLASS)


def test_too_small_a_folder_is_told_before_it_starts() -> None:
    sources = SourceTable.of(FakeWorld().sources(3))
    plan = divide(stress_test_request(), sources, redraws=True).plan
    assert plan is not None
    assert plan.reason == (
        "the largest class has 3 images, and even if images are drawn again, a test needs 4 of a class"
    )
    few = SourceTable.of(FakeWorld().sources(4, ("sled",)))
    short = divide(stress_test_request(max_edits_per_image=1), few, redraws=True)
    assert short.plan is not None
    assert str(short.plan.reason).startswith("the images that the screen does not use leave 4 items")
    assert (short.plan.screened, short.plan.fresh, len(short.screened)) == (4, 0, 4)
