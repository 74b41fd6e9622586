"""Clusters of similar edits among the insights: they make open-vocabulary effects detectable."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.contract.features import FeatureVector, WordFeatures
from counterpose_core.contract.perturber import WordSpan
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import Insight, StressTestSummary
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config

WIDTH = 8
HARMLESS, HARMFUL = {"steady": 0.9, "leaning": 0.9}, {"steady": 0.9, "leaning": 0.5}


def near(axis: int, draws: np.random.Generator) -> FeatureVector:
    """A unit vector close to an axis."""
    vector = np.eye(WIDTH)[axis] + draws.normal(0.0, 0.05, WIDTH)
    return FeatureVector.of((vector / np.linalg.norm(vector)).tolist())


def says(item: Item, added: str, features: FeatureVector | None, weights: str = "clip@1") -> Item:
    """The same item, with an edit that appends ``added`` to the caption."""
    assert item.result is not None
    words = None if features is None else WordFeatures(added=features)
    update = {
        "edited_caption": f"{item.result.caption} {added}",
        "removed": [],
        "added": [WordSpan(words=[added], start=9)],
        "word_features": words,
        "models": {"clip": weights},
    }
    return item.model_copy(update={"result": item.result.model_copy(update=update)})


def open_vocabulary(*, recorded: bool = True, weights: str = "clip@1") -> list[Item]:
    """30 sources, each with its own harmful water word and with another, harmless word."""
    draws = np.random.default_rng(5)
    ledgered, items = Ledgered(), []
    for index in range(30):
        source = f"source-{index}"
        items += [ledgered.add(source, "reconstruction"), ledgered.add(source, "placebo")]
        wet = ledgered.add(source, edit_type="background", after=HARMFUL)
        dry = ledgered.add(source, edit_type="background", after=HARMLESS)
        axes = (0, 1 + index % 4)
        water, other = (near(axis, draws) if recorded else None for axis in axes)
        items += [says(wet, f"water{index}", water, weights), says(dry, f"thing{index}", other)]
    return items


def summary(items: list[Item]) -> StressTestSummary:
    return summarize(recorded_run(fake_config(), items), items)


def found(made: StressTestSummary) -> list[Insight]:
    return [insight for insight in made.insights if insight.significant]


@pytest.mark.paper("LANCE-S4.2-l1-kmeans")
def test_thirty_words_for_water_form_one_cluster() -> None:
    items = open_vocabulary()
    [insight] = found(summary(items))
    assert (insight.classifier, insight.object_class, insight.edit_type) == ("leaning", "sled", "background")
    assert insight.added.startswith("water")
    assert (insight.cluster_size, insight.n_sources, insight.n_images) == (30, 30, 30)
    assert insight.delta_p.estimate == pytest.approx(-0.4)
    assert f"when “{insight.added}” is brought in and changes like it (30 different ones)" in insight.sentence
    added = {item.id: item.result.added[0].words[0] for item in items if item.result and item.result.added}
    assert all(added[item].startswith("water") for item in insight.cluster_items)
    assert len(insight.cluster_items) == 30


def test_without_features_only_the_edit_type_as_a_whole_remains() -> None:
    [insight] = found(summary(open_vocabulary(recorded=False)))
    assert (insight.removed, insight.added, insight.cluster_size) == ("", "", 1)
    assert insight.cluster_items == []
    assert insight.delta_p.estimate == pytest.approx(-0.2)


def test_clusters_count_towards_the_corrected_family() -> None:
    sizes = [found(summary(open_vocabulary(recorded=flag)))[0].family_size for flag in (False, True)]
    # One group of each of two classifiers; five clusters of each more.
    assert sizes == [2, 12]


def test_the_outcome_of_an_edit_does_not_change_clusters() -> None:
    items = open_vocabulary()
    [before] = found(summary(items))
    for place in range(0, len(items), 3):
        result = items[place].result
        assert result is not None
        update = {"predictions": result.original_predictions}
        items[place] = items[place].model_copy(update={"result": result.model_copy(update=update)})
    [after] = [one for one in summary(items).insights if one.cluster_size > 1]
    assert sorted(after.cluster_items) == sorted(before.cluster_items)
    assert after.added == before.added


def test_the_order_of_items_does_not_change_clusters() -> None:
    items = open_vocabulary()
    [one], [other] = found(summary(items)), found(summary(items[::-1]))
    assert sorted(one.cluster_items) == sorted(other.cluster_items)
    assert (one.added, one.cluster_size) == (other.added, other.cluster_size)


def test_features_of_other_weights_are_not_compared() -> None:
    items = [
        says(item, f"other{item.id}", FeatureVector.of([0.6, 0.8]), weights="clip@2")
        if item.result is not None and item.item_group == "source-0" and item.kind == "edit"
        else item
        for item in open_vocabulary()
    ]
    [insight] = [one for one in found(summary(items)) if one.cluster_size > 1]
    assert (insight.cluster_size, insight.n_sources) == (29, 29)
