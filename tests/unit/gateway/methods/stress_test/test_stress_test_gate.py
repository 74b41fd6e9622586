"""The gate over the sweep: which variant is selected, and what happens if none passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_gateway.methods.stress_test.process import process
from fakes.ports import (
    FakeClassifiers,
    FakeScorer,
    fake_services,
)
from fakes.recorder import FakeRecorder, lease_all
from fakes.runs import outcome, planned, states, stress_test
from fakes.world import FakeWorld


@pytest.mark.paper("LANCE-C-selection")
async def test_the_released_rule_selects_the_most_conservative_passing_value() -> None:
    world = FakeWorld()
    items, record = await stress_test(world, world.sources(1), fake_services(world), selection="released")
    result = outcome(items, record, "edit", "object").result
    assert result is not None
    assert result.strength == 0.8


class _PickyScorer(FakeScorer):
    failing: dict[str, float] = {"snow": -0.5, "sand": -0.5, "fog": -0.5}

    def measure(self, item: ScoreItem) -> EditScores:
        scores = super().measure(item)
        direction = next((value for word, value in self.failing.items() if word in item.edited_caption), None)
        return scores if direction is None else scores.model_copy(update={"direction": direction})


@pytest.mark.paper("LANCE-A1-13-quality")
async def test_an_edit_without_a_passing_variant_is_filtered_with_its_scores() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_PickyScorer(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    dropped = outcome(items, record, "edit", "background")
    assert dropped.reason == "gate-direction"
    assert dropped.result is not None
    assert dropped.result.scores is not None
    assert dropped.result.predictions == {}
    assert outcome(items, record, "placebo").state == "done"


class _NothingPasses(FakeScorer):
    def measure(self, item: ScoreItem) -> EditScores:
        return super().measure(item).model_copy(update={"image_image": 0.1})


@pytest.mark.paper("LANCE-B-reconstruction")
async def test_a_run_without_kept_edits_has_its_reconstruction() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_NothingPasses(world))
    _, record = await stress_test(world, [world.source("sled", 0)], services)
    assert states(record) == {"done": 1, "gate-image-image": 6}


async def test_classifiers_are_not_called_without_images() -> None:
    world = FakeWorld()
    classifiers, record = FakeClassifiers(world), FakeRecorder()
    services = fake_services(world, scorer=_NothingPasses(world), classifiers=classifiers)
    config, items = await planned([world.source("sled", 0)], services)
    # Planning measured the baseline.
    classifiers.calls.clear()
    [group] = lease_all(config, items)
    edits = [item for item in group.items if item.kind == "edit"]
    await process(replace(group, items=edits), services=services, record=record, store=world.store)
    assert states(record) == {"gate-image-image": 5}
    assert classifiers.calls == {}
