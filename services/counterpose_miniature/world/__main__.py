"""``python -m counterpose_miniature.world OUT``: write a labelled dataset of rendered images."""

from __future__ import annotations

import argparse
from pathlib import Path

from counterpose_miniature.world.dataset import write_image_folder
from counterpose_miniature.world.sampling import DATASET, GENERATOR, UNIFORM
from counterpose_miniature.world.seeds import SPLITS, balanced_scenes
from counterpose_miniature.world.user_dataset import USER_DATASET

DISTRIBUTIONS = {"dataset": DATASET, "generator": GENERATOR, "uniform": UNIFORM, "user": USER_DATASET}


def main() -> None:
    """Parse arguments and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", choices=[split.name for split in SPLITS], default="development")
    parser.add_argument("--distribution", choices=sorted(DISTRIBUTIONS), default="dataset")
    parser.add_argument("--per-class", type=int, default=6)
    parser.add_argument("--start", type=int, default=0, help="first index in the split")
    arguments = parser.parse_args()
    split = next(split for split in SPLITS if split.name == arguments.split)
    distribution = DISTRIBUTIONS[arguments.distribution]
    write_image_folder(
        arguments.out, balanced_scenes(split, distribution, arguments.per_class, arguments.start)
    )


if __name__ == "__main__":
    main()
