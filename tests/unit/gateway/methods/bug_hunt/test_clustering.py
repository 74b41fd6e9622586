"""Clusters of failures in the stages of a hunt: what is planned, captioned, described and told."""

from __future__ import annotations

from collections import Counter

import pytest

from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntClusters, HuntInstruction, HuntItem
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.methods.bug_hunt.summary import summarize
from fakes.hunted_items import EXAMPLE, caption, clustering, hunt_config, hunt_run, sample

FAILURES = 40


def clustered(how: HuntClusters, captions: int = 6) -> BugHuntConfig:
    config = hunt_config()
    return config.model_copy(
        update={"request": config.request.model_copy(update={"clusters": how, "captions": captions})}
    )


def baseline() -> list[HuntItem]:
    """Flies of which the first are called bees, then four buses."""
    answers = ["bee"] * (FAILURES - 4) + ["bus"] * 4 + ["fly"] * (200 - FAILURES)
    return [sample(number, answer) for number, answer in enumerate(answers)]


def planned(config: BugHuntConfig, items: list[HuntItem], stage: int) -> list[HuntInstruction]:
    plan = next_stage(hunt_run(config, stage), items)
    return [HuntInstruction.model_validate(item.instruction) for item in ([] if plan is None else plan.items)]


def halves(items: list[HuntItem]) -> HuntItem:
    """A clustering that splits the bees in two."""
    images = [item.result.image for item in items[:FAILURES] if item.result is not None]
    return clustering({image: place // 18 for place, image in enumerate(images)})


def test_features_are_clustered_before_captions_in_one_item() -> None:
    (told,) = planned(clustered("features"), baseline(), 2)
    assert (told.phase, told.classifiers) == ("clusters", ["model"])
    assert Counter(told.answers) == {"bee": 36, "bus": 4}
    assert (len(told.images), len(told.reference)) == (FAILURES, 64)
    assert not set(told.images) & set(told.reference)


@pytest.mark.parametrize(
    ("how", "captioned"),
    [("none", {"bee": 6}), ("predicted", {"bee": 3, "bus": 3}), ("features", {"bee": 4, "bus": 2})],
)
def test_each_cluster_has_captions(how: HuntClusters, captioned: dict[str, int]) -> None:
    items = baseline()
    if how == "features":
        items.append(halves(items))
    told = planned(clustered(how), items, 2)
    assert {each.phase for each in told} == {"captions"}
    answers = {item.id: item.result.predictions["model"].answer for item in items[:200] if item.result}
    found = Counter(answers[each.sample] for each in told if each.sample is not None)
    assert {name: number for name, number in found.items() if name != "fly"} == captioned


def test_each_cluster_is_described_by_itself_in_turns() -> None:
    items = baseline()
    items += [caption(item, "a photo of a fly among the flowers") for item in items[:3]]
    items += [caption(item, "a photo of a fly next to a tree") for item in items[36:39]]
    items += [caption(item, f"a photo of a fly on the {'sand'}") for item in items[40:46]]
    told = planned(clustered("predicted"), items, 3)
    assert list(dict.fromkeys(each.prompt for each in told))[:2] == [
        "a photo of a fly among the flowers", "a photo of a fly next to a tree",
    ]  # fmt: skip


def test_the_summary_tells_the_clusters() -> None:
    items = baseline()
    found = summarize(hunt_run(clustered("features"), 2), [*items, halves(items)]).clusters
    assert [(each.answer, each.n, len(each.images)) for each in found] == [
        ("bee", 18, 6), ("bee", 18, 6), ("bus", 4, 4),
    ]  # fmt: skip
    assert found[0].images[0].image != EXAMPLE
    assert summarize(hunt_run(clustered("none"), 2), items).clusters == []


def test_images_without_features_are_clustered_by_their_answers() -> None:
    items = baseline()
    found = summarize(hunt_run(clustered("features"), 2), [*items, clustering({})]).clusters
    assert [(each.answer, each.n) for each in found] == [("bee", 36), ("bus", 4)]
