"""A planted bug that was not found is lost at one step, the first that holds."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from counterpose_core.contract.runs import Item
from counterpose_core.types import Estimate
from counterpose_miniature.world.scene import Scene
from evaluation.tests.fakes.validity import BOAT_BY_ITS_WATER, change, insight, item, scene
from evaluation.two_stages.claims import Claim
from evaluation.two_stages.fates import Story
from evaluation.two_stages.replay import Replayed
from evaluation.two_stages.report import Fate
from evaluation.validity.changes import change_of
from evaluation.validity.detection import Chance

CHANCE = Chance(0, "model", BOAT_BY_ITS_WATER, 0.6)
WATER, GRASS = scene(), scene(background="grass")
ON_SAND = WATER.changed("background", "sand")
LOSS = Estimate(estimate=0.6, low=0.5, high=0.7, n=8)


def story(items: Sequence[Item], *claims: Claim, confirm: bool = True, shown: Scene = ON_SAND) -> Story:
    """A run with these items, whose oracle sees the same in every image."""
    replayed = SimpleNamespace(
        items=items, create=SimpleNamespace(confirm=confirm), summary=SimpleNamespace(insights=[])
    )
    changes = {one.id: change for one in items if (change := change_of(one, 0)) is not None}
    scenes = {"b" * 64: WATER}
    return Story(
        cast(Replayed, replayed), claims, changes, scenes, lambda images: [shown.attributes() for _ in images]
    )


def claim(state: str = "cannot-tell", *sources: int, removed: str = "on the water") -> Claim:
    edits = [change(source) for source in sources]
    return Claim(insight(removed), state, LOSS, edits, len(edits), is_tested=True)


KEPT = item(WATER, ON_SAND, name="edit")
DROPPED = item(WATER, ON_SAND, name="edit", state="filtered")
OTHER = item(WATER, WATER.changed("weather", "night"), name="edit")
UNSAID = item(GRASS, GRASS.changed("background", "sand"), name="edit")


@pytest.mark.parametrize(
    ("told", "fate"),
    [
        (story([KEPT], claim("breaks")), "found"),
        (story([UNSAID]), "no-caption"),
        (story([OTHER]), "no-edit"),
        (story([DROPPED]), "gate"),
        (story([KEPT], shown=WATER), "wrong-edit"),
        (story([KEPT]), "not-chosen"),
        (story([KEPT], claim("cannot-tell", 0, 1, 2)), "too-few-pairs"),
        (story([KEPT], claim("cannot-tell", 0, 1, 2, 3, 4)), "not-shown"),
        (story([KEPT], claim("cannot-tell", 0, 0, 0, 1)), "not-shown"),
        (story([KEPT], confirm=False), "not-chosen"),
    ],
)
def test_a_bug_has_one_fate(told: Story, fate: Fate) -> None:
    assert told.fate(CHANCE) == fate


def test_a_finding_under_other_words_is_told_apart() -> None:
    assert story([KEPT], claim("breaks", 0, 1, removed="")).fate(CHANCE) == "other-words"


def test_a_finding_of_another_classifier_finds_nothing() -> None:
    other = Claim(insight(classifier="other"), "breaks", LOSS, [], 8, is_tested=True)
    assert story([KEPT], other).fate(CHANCE) == "not-chosen"
