"""Which seeds the images of a dataset interface come from: stretches apart from all other uses."""

from __future__ import annotations

from collections.abc import Iterator

from faultline_miniature.world.__main__ import balanced_scenes
from faultline_miniature.world.scene import Scene
from faultline_miniature.world.seeds import SeedRange
from faultline_miniature.world.user_dataset import USER_DATASET

FIRST = 6_000_000
STRETCH = 100_000
"""Seeds of a split from `FIRST` on are the interfaces' alone; each number has a stretch of its own."""


def interface_scenes(split: SeedRange, number: int, per_class: int, *, part: int = 0) -> Iterator[Scene]:
    """Yield ``per_class`` scenes of each class from stretch ``number`` of a split, in order.

    ``part`` counts tenths of the stretch, so that the images a token learns from (0), those that
    thresholds are taken from (1) and those that truth is rendered from (2) are apart.

    Raises:
        ValueError: the split has no such stretch, or the stretch no such part.
    """
    if not (0 <= number < (len(split) - FIRST) // STRETCH and 0 <= part < 10):
        raise ValueError(f"split {split.name!r} has no stretch {number!r} with a part {part!r}")
    start = FIRST + number * STRETCH + part * (STRETCH // 10)
    return balanced_scenes(split, USER_DATASET, per_class, start)
