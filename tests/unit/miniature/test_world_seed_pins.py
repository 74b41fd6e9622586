"""The seeds of the miniature world and of its training, pinned by value: streams of numbers, not of names.

A pin changes only in a commit that says which images change and why: every scene on record, and what the
networks were trained on, follows from these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from counterpose_miniature.training.images import caption_variants
from counterpose_miniature.training.rendered import step_generator
from counterpose_miniature.training.stage import StageContext
from counterpose_miniature.world.nuisance import nuisance_of
from counterpose_miniature.world.sampling import GENERATOR
from counterpose_miniature.world.seeds import SPLITS, scene_for
from fakes.seeded_calls import generators


def splits() -> dict[str, list[object]]:
    """The seeds that the same scene of each split is drawn from."""
    return {split.name: generators(partial(scene_for, split, 7, GENERATOR)) for split in SPLITS}


SCENE = scene_for(SPLITS[1], 7, GENERATOR)
SITES: dict[str, Callable[[], object]] = {
    "world/nuisance": lambda: sorted(map(str, generators(lambda: nuisance_of(7)))),
    "world/seeds": splits,
    "world/seeds scene": lambda: {name: str(value) for name, value in SCENE.attributes().items()},
    "training/images": lambda: generators(lambda: caption_variants(SCENE)),
    "training/rendered": lambda: step_generator(3, 7).initial_seed(),
    "training/stage": lambda: StageContext(Path(), Path(), seed=3).generator(7).initial_seed(),
}

PINS: dict[str, object] = {
    "world/nuisance": ["[7, 10]", "[7, 1]", "[7, 2]", "[7, 3]", "[7, 4]", "[7, 5]", "[7, 6]", "[7, 9]"],
    "world/seeds": {
        "training": [[7, 380_574]],
        "development": [[100_000_007, 380_574]],
        "validation": [[110_000_007, 380_574]],
        "oracle": [[120_000_007, 380_574]],
        "classifier": [[220_000_007, 380_574]],
    },
    "world/seeds scene": {
        "object_class": "sled",
        "kind": "plain",
        "colour": "white",
        "background": "road",
        "weather": "fog",
        "style": "sketch",
        "companion": "none",
    },
    "training/images": [[100_000_007, 198_717]],
    "training/rendered": 3_000_016,
    "training/stage": 3_000_016,
}


@pytest.mark.parametrize("site", SITES)
def test_a_site_makes_its_generators_from_the_seeds_on_record(site: str) -> None:
    assert SITES[site]() == PINS[site]
