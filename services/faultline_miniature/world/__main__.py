"""``python -m faultline_miniature.world OUT``: write a labelled dataset of rendered images."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from faultline_miniature.world.dataset import write_image_folder
from faultline_miniature.world.sampling import DATASET, GENERATOR, UNIFORM, Distribution
from faultline_miniature.world.scene import VALUES, Scene
from faultline_miniature.world.seeds import SPLITS, SeedRange, scene_for
from faultline_miniature.world.user_dataset import USER_DATASET

DISTRIBUTIONS = {"dataset": DATASET, "generator": GENERATOR, "uniform": UNIFORM, "user": USER_DATASET}
MAX_DRAWS_PER_IMAGE = 1000


def balanced_scenes(
    split: SeedRange, distribution: Distribution, per_class: int, start: int = 0
) -> Iterator[Scene]:
    """Yield scenes of a split in order until each class has ``per_class``."""
    left = dict.fromkeys(VALUES["object_class"], per_class)
    index = start
    while any(left.values()):
        # A class of probability zero would otherwise be waited for to the end of the split.
        if index - start > MAX_DRAWS_PER_IMAGE * per_class * len(left):
            raise ValueError(
                f"the distribution never gives {[name for name, count in left.items() if count]!r}"
            )
        scene = scene_for(split, index, distribution)
        index += 1
        if left[scene.object_class]:
            left[scene.object_class] -= 1
            yield scene


def main() -> None:
    """Parse arguments and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", choices=[split.name for split in SPLITS], default="development")
    parser.add_argument("--distribution", choices=sorted(DISTRIBUTIONS), default="dataset")
    parser.add_argument("--per-class", type=int, default=6)
    parser.add_argument("--start", type=int, default=0, help="index into the split to begin at")
    arguments = parser.parse_args()
    split = next(split for split in SPLITS if split.name == arguments.split)
    distribution = DISTRIBUTIONS[arguments.distribution]
    write_image_folder(
        arguments.out, balanced_scenes(split, distribution, arguments.per_class, arguments.start)
    )


if __name__ == "__main__":
    main()
