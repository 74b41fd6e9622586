"""The sweep in rounds: under the released rule only failed edits proceed to their next value."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.editor import EditedImage, EditRequest, EditResponse
from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_core.contract.stress_tests import SweepSummary
from counterpose_core.errors import NumericalFailure
from counterpose_core.types import Selection
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.services.ports import Services
from fakes.ports import FakeEditor, FakeScorer, fake_services
from fakes.recorder import FakeRecorder, Recorded, lease_all, recorded_items, recorded_run
from fakes.runs import planned, stress_test
from fakes.world import FakeWorld

SWEEP = (0.4, 0.6, 0.8)
PATTERNS = list(itertools.product([True, False], repeat=len(SWEEP)))


class _Asked(FakeEditor):
    """Notes which values were asked for, and of how many edits."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.rounds: list[tuple[tuple[float, ...], int]] = []

    async def edit(self, request: EditRequest) -> EditResponse:
        self.rounds.append((request.values, len(request.items)))
        return await super().edit(request)


class _Patterned(FakeScorer):
    """Each edited caption passes at values of its own, dealt out in the order the captions come."""

    def __init__(self, world: FakeWorld, start: int = 0) -> None:
        super().__init__(world)
        self.start, self.patterns = start, dict[str, tuple[bool, ...]]()

    def measure(self, item: ScoreItem) -> EditScores:
        fraction = self.world.shown[item.edited].strength
        assert fraction is not None
        count = self.start + len(self.patterns)
        passes = self.patterns.setdefault(item.edited_caption, PATTERNS[count % len(PATTERNS)])
        image_image = 0.9 if passes[SWEEP.index(fraction)] else 0.1
        return super().measure(item).model_copy(update={"image_image": image_image})


def edited(record: FakeRecorder) -> dict[str, Recorded]:
    return {
        found.result.edited_caption: found
        for found in record.outcomes.values()
        if found.result is not None and found.result.edited_caption is not None
    }


@pytest.mark.parametrize("start", [0, 4])
async def test_the_lazy_sweep_makes_the_same_choice_with_fewer_images(start: int) -> None:
    world = FakeWorld()
    scorer, editor = _Patterned(world, start), _Asked(world)
    services = fake_services(world, scorer=scorer, editor=editor)
    _, record = await stress_test(world, [world.source("sled", 0)], services, selection="released")
    found = edited(record)
    assert found.keys() == scorer.patterns.keys()
    for caption, passes in scorer.patterns.items():
        passing = [value for value, good in zip(SWEEP, passes, strict=True) if good]
        result = found[caption].result
        assert result is not None
        assert found[caption].state == ("done" if passing else "filtered")
        # Where none passes, the same one is named as over the whole sweep: the best direction's, 0.4.
        assert result.strength == (max(passing) if passing else 0.4)
        assert result.strengths_tried == [value for value in SWEEP if value >= result.strength]
    tried = sum(len(each.result.strengths_tried) for each in found.values() if each.result)
    assert sum(len(values) * edits for values, edits in editor.rounds) == tried


async def test_failed_edits_of_a_source_share_the_next_call() -> None:
    world = FakeWorld()
    scorer, editor = _Patterned(world), _Asked(world)
    services = fake_services(world, scorer=scorer, editor=editor)
    await stress_test(world, [world.source("sled", 0)], services, selection="released")
    # Six patterns: passing at all values, at all but 0.8, but 0.6, only at 0.4, but 0.4, only at 0.6.
    assert editor.rounds == [((0.8,), 6), ((0.6,), 3), ((0.4,), 1)]
    assert scorer.calls["score"] == 3


async def test_the_papers_rule_generates_the_whole_sweep_in_one_call() -> None:
    world = FakeWorld()
    editor = _Asked(world)
    _, record = await stress_test(world, [world.source("sled", 0)], fake_services(world, editor=editor))
    assert editor.rounds == [(SWEEP, 6)]
    results = [found.result for found in edited(record).values() if found.result]
    assert [result.strengths_tried for result in results] == [list(SWEEP)] * 6


@pytest.mark.parametrize("selection", ["paper", "released"])
async def test_every_evaluation_is_counted_once(selection: Selection) -> None:
    world = FakeWorld()
    editor = _Asked(world)
    services = fake_services(world, scorer=_Patterned(world), editor=editor)
    _, record = await stress_test(world, [world.source("sled", 0)], services, selection=selection)
    results = [found.result for found in record.outcomes.values() if found.result]
    # The fake takes 20 steps an edit and value, 20 more a call, and as many for the reconstruction.
    evaluations = [20 * (len(values) * edits + 1) for values, edits in editor.rounds]
    assert sum(result.cost.unet_evaluations for result in results) == 20 + sum(evaluations)
    calls = [20 * len(values) for values, _ in editor.rounds]
    assert sum(result.cost.unet_calls for result in results) == 20 + sum(calls)


class _BreaksAt(_Asked):
    """Fails the first edit of every call at one value."""

    async def edit(self, request: EditRequest) -> EditResponse:
        response = await super().edit(request)
        if request.values != (0.6,):
            return response
        broken = Outcome[EditedImage](problem=Problem.of(NumericalFailure("NaN")))
        return response.model_copy(update={"outcomes": [broken, *response.outcomes[1:]]})


async def test_an_edit_failing_at_a_later_value_does_not_affect_others() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_Patterned(world), editor=_BreaksAt(world))
    _, record = await stress_test(world, [world.source("sled", 0)], services, selection="released")
    failed = [found for found in record.outcomes.values() if found.state == "failed"]
    assert [found.error.code for found in failed if found.error] == ["numerical-failure"]
    assert len([found for found in record.outcomes.values() if found.state == "done"]) == 6


async def test_a_run_stopped_between_rounds_leaves_its_items_retryable() -> None:
    world = FakeWorld()
    source = world.source("sled", 0)
    whole = (await stress_test(world, [source], _services(world), selection="released"))[1].outcomes
    config, items = await planned([source], _services(world), selection="released")
    [group] = lease_all(config, items)
    polls = FakeRecorder()
    await process(group, services=_services(world), record=polls, store=world.store)
    for stop in range(3, polls.polls, 2):
        record = FakeRecorder(cancel_after=stop)
        await process(group, services=_services(world), record=record, store=world.store)
        left = [item for item in group.items if item.id not in record.outcomes]
        again = FakeRecorder()
        await process(replace(group, items=left), services=_services(world), record=again, store=world.store)
        both = record.outcomes | again.outcomes
        assert {item: (found.state, _image(found)) for item, found in both.items()} == {
            item: (found.state, _image(found)) for item, found in whole.items()
        }


class _Picky(FakeScorer):
    """No edit passes without its dog, none without its red but at 0.4, all others at all values."""

    def measure(self, item: ScoreItem) -> EditScores:
        fraction = self.world.shown[item.edited].strength
        bad = "dog" not in item.edited_caption or ("red" not in item.edited_caption and fraction != 0.4)
        return super().measure(item).model_copy(update={"image_image": 0.1 if bad else 0.9})


def _services(world: FakeWorld) -> Services:
    return fake_services(world, scorer=_Picky(world))


def _image(found: Recorded) -> tuple[str, float | None] | None:
    return None if found.result is None else (found.result.image, found.result.strength)


@pytest.mark.parametrize(("selection", "made"), [("paper", 18), ("released", 10)])
async def test_the_summary_counts_the_images_generated_for_selection(selection: Selection, made: int) -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_Patterned(world))
    sources = [world.source("sled", 0)]
    config, _ = await planned(sources, services, selection=selection)
    planned_items, record = await stress_test(world, sources, services, selection=selection)
    items = recorded_items(planned_items, record)
    summary = summarize(recorded_run(config, items), items)
    assert summary.sweep == SweepSummary(selection=selection, values=3, edits=6, made=made)
