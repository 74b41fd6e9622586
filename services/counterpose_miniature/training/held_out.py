"""``python -m counterpose_miniature.training.held_out OUT``: write the test set of the leaning classifiers.

Like a user's test set, it resembles the training set: its classes mostly have the values that the suite's
classifiers lean on. So accuracy on it is high and does not show what happens if one thing changes.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

from counterpose_miniature.training.bugs import SUITE_BUGS, as_trained, read_bugs
from counterpose_miniature.world import Distribution
from counterpose_miniature.world.dataset import write_image_folder
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, balanced_scenes


def held_out() -> Distribution:
    """Return the distribution of the training images of all the suite's classifiers together."""
    files = sorted(file for file in SUITE_BUGS.glob("*.json") if file.name != "schema.json")
    return as_trained(chain.from_iterable(read_bugs(file) for file in files))


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse arguments and write the folder, from development seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-class", type=int, default=6)
    parser.add_argument(
        "--classes",
        type=lambda names: names.split(","),
        default=list(VALUES["object_class"]),
        help="classes to render PER_CLASS images of, separated by commas (default: all)",
    )
    parser.add_argument("--others", type=int, default=0, help="images of each other class")
    given = parser.parse_args(arguments)
    if unknown := set(given.classes) - set(VALUES["object_class"]):
        known = ", ".join(VALUES["object_class"])
        parser.error(f"the world has no class {sorted(unknown)[0]!r}; it has {known}")
    write_image_folder(given.out, _scenes(given.classes, given.per_class, given.others))


def _scenes(classes: Collection[str], per_class: int, others: int) -> Iterator[Scene]:
    """The first scenes of each class: ``per_class`` of ``classes``, ``others`` of every other."""
    left = {name: per_class if name in classes else others for name in VALUES["object_class"]}
    for scene in balanced_scenes(DEVELOPMENT, held_out(), max(left.values())):
        if left[scene.object_class]:
            left[scene.object_class] -= 1
            yield scene


if __name__ == "__main__":
    main()
