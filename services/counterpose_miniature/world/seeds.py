"""Disjoint seed ranges, so that no image of one split appears in another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from counterpose_miniature.world.sampling import Distribution, sample_scene
from counterpose_miniature.world.scene import VALUES, Scene

MAX_DRAWS_PER_IMAGE = 1000
_SCENE_STREAM = 0x5CE9E


@dataclass(frozen=True, slots=True)
class SeedRange:
    """A named half-open range of seeds [start, stop)."""

    name: str
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"seed range {self.name!r} is empty or negative: [{self.start}, {self.stop})")

    def __len__(self) -> int:
        return self.stop - self.start

    def seed(self, index: int) -> int:
        """Return the index-th seed; an index past the end raises, as its seed would be another split's."""
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is outside split {self.name!r} of {len(self)} seeds")
        return self.start + index


# Far more than any training needs, so that stages can have their own stretches of a split. Oracle and
# classifiers have their own splits: neither the judge nor the judged has seen the generator's images.
TRAINING = SeedRange("training", 0, 100_000_000)
DEVELOPMENT = SeedRange("development", 100_000_000, 110_000_000)
VALIDATION = SeedRange("validation", 110_000_000, 120_000_000)
ORACLE = SeedRange("oracle", 120_000_000, 220_000_000)
CLASSIFIER = SeedRange("classifier", 220_000_000, 320_000_000)
SPLITS: tuple[SeedRange, ...] = (TRAINING, DEVELOPMENT, VALIDATION, ORACLE, CLASSIFIER)


def scene_for(split: SeedRange, index: int, distribution: Distribution) -> Scene:
    """Return the index-th scene of a split; its nuisance is the split's own seed."""
    seed = split.seed(index)
    scene = sample_scene(np.random.default_rng([seed, _SCENE_STREAM]), distribution)
    return replace(scene, nuisance=seed)


def balanced_scenes(
    split: SeedRange, distribution: Distribution, per_class: int, start: int = 0
) -> Iterator[Scene]:
    """Yield scenes of a split in order until each class has ``per_class``."""
    left = dict.fromkeys(VALUES["object_class"], per_class)
    index = start
    while any(left.values()):
        # Otherwise a class of probability zero would use up the whole split.
        if index - start > MAX_DRAWS_PER_IMAGE * per_class * len(left):
            raise ValueError(
                f"the distribution never gives {[name for name, count in left.items() if count]!r}"
            )
        scene = scene_for(split, index, distribution)
        index += 1
        if left[scene.object_class]:
            left[scene.object_class] -= 1
            yield scene
