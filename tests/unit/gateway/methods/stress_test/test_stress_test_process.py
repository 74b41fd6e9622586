"""The stress-test workflow over fakes of the five ports, with services that succeed."""

from __future__ import annotations

import pytest

from counterpose_core.types import Cost
from fakes.ports import (
    FakeCaptioner,
    FakeClassifiers,
    FakeEditor,
    FakePerturber,
    FakeScorer,
    fake_services,
)
from fakes.runs import outcome, states, stress_test
from fakes.world import FakeWorld


@pytest.mark.paper("LANCE-S3-pipeline", "LANCE-F2-overview")
async def test_every_planned_item_is_done_if_all_services_succeed() -> None:
    world = FakeWorld()
    items, record = await stress_test(world, world.sources(2), fake_services(world))
    assert len(record.outcomes) == len(items) == 8 * 7
    assert states(record) == {"done": 56}


async def test_a_counterfactual_has_words_scores_provenance_and_predictions() -> None:
    world = FakeWorld()
    items, record = await stress_test(world, world.sources(1), fake_services(world))
    result = outcome(items, record, "edit", "adjective").result
    assert result is not None
    assert [span.words for span in result.removed] == [["red"]]
    assert [span.start for span in result.added] == [4]
    assert result.scores is not None
    assert result.predictions.keys() == result.original_predictions.keys() == {"steady", "leaning"}
    assert result.original_predictions["steady"].right
    assert result.models["editor"] == "fake-editor@0"
    assert result.preset is not None
    assert world.shown[result.image].strength == result.strength == 0.4


@pytest.mark.paper("LANCE-A1-7-caption")
async def test_each_service_is_called_once_per_source() -> None:
    world = FakeWorld()
    editor, scorer, classifiers = FakeEditor(world), FakeScorer(world), FakeClassifiers(world)
    perturber = FakePerturber()
    services = fake_services(
        world, perturber=perturber, editor=editor, scorer=scorer, classifiers=classifiers
    )
    await stress_test(world, [world.source("sled", 0)], services)
    assert perturber.calls == {"perturb": 1, "likelihoods": 1}
    assert editor.calls == {"reconstruct": 1, "edit": 1}
    # Sentence embeddings for the text filters; of what is kept, CLIP's of all images and of all words.
    assert scorer.calls == {"embed_texts": 1 + 1, "score": 1, "embed_images": 1}
    # Once more when the run is planned, for the baseline.
    assert classifiers.calls == {"steady": 1 + 1, "leaning": 1 + 1}


async def test_long_sweeps_are_spread_over_several_calls() -> None:
    world = FakeWorld()
    editor = FakeEditor(world)
    _, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, editor=editor), preset="lance"
    )
    assert editor.calls == {"reconstruct": 1, "edit": 3}
    assert states(record) == {"done": 7}


async def test_item_costs_add_up_to_the_cost_of_the_source() -> None:
    world = FakeWorld()
    _, record = await stress_test(world, [world.source("sled", 0)], fake_services(world))
    results = [recorded.result for recorded in record.outcomes.values() if recorded.result]
    total = sum((result.cost for result in results), Cost())
    assert total.unet_evaluations == 20 + 6 * 60 + 20
    # An evaluation is one item's own, calls and waits are shared by all: both are told once.
    assert total.flops == 1000 * total.unet_evaluations
    assert total.attention_map_bytes == 8 * total.unet_evaluations
    assert total.unet_calls == total.host_syncs == 20 + 60
    assert total.clip_passes == 6 * 3
    assert set().union(*(result.service_seconds for result in results)) == {
        "captioner", "perturber", "editor", "scorer", "classifiers",
    }  # fmt: skip


async def test_a_provided_caption_replaces_the_captioner() -> None:
    world = FakeWorld()
    captioner = FakeCaptioner(world)
    source = world.source("sled", 0, caption="a photo of a red sled on the grass with a dog")
    items, record = await stress_test(world, [source], fake_services(world, captioner=captioner))
    assert captioner.calls["caption"] == 0
    result = outcome(items, record, "reconstruction").result
    assert result is not None
    assert result.caption == source.caption
