"""A user's dataset, in which some classes differ from the generator's images for their bare name.

These were measured: in 24 of 24 images of "a photo of a <class>", plates are empty, boats are complete and
trams are yellow or white (docs/experiments/tokens.md). Here plates have food on them (contents), trams are
green (colour), and boats are close-ups that leave the frame (framing).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from counterpose_miniature.world.sampling import Distribution
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.seeds import SeedRange, balanced_scenes

Sort = Literal["contents", "colour", "framing"]
_USUAL = 0.97

FIRST_SEED = 6_000_000
STRETCH = 100_000
"""Seeds of a split from `FIRST_SEED` on belong to dataset interfaces; each number has its own stretch."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A value that nearly every image of a class has in the dataset, and hardly any of its bare name."""

    object_class: str
    sort: Sort
    attribute: str
    value: str

    def shown_by(self, seen: Mapping[str, str]) -> bool:
        """Return True if an image with these attributes has the value."""
        return seen[self.attribute] == self.value


# Random size and place vary by 12 % and two pixels, which is too little for a difference in framing; the
# boat's close-up is 1.4 times as large and cut off by the frame.
MISMATCHES: tuple[Mismatch, ...] = (
    Mismatch("plate", "contents", "kind", "special"),
    Mismatch("tram", "colour", "colour", "green"),
    Mismatch("boat", "framing", "kind", "special"),
)
MISMATCHED_CLASSES: tuple[str, ...] = tuple(each.object_class for each in MISMATCHES)


def _mostly(attribute: str, value: str) -> dict[str, float]:
    rest = (1.0 - _USUAL) / (len(VALUES[attribute]) - 1)
    return {name: _USUAL if name == value else rest for name in VALUES[attribute]}


# Photographs in clear weather on grass, sand and roads. What a benchmark's shifts show is rare in training,
# to different degrees, so that the shifts' effects differ.
USER_DATASET = Distribution(
    weights={
        "kind": {"plain": 0.9, "special": 0.1},
        "colour": {"red": 0.3, "yellow": 0.3, "white": 0.3, "blue": 0.08, "green": 0.02},
        "background": {
            "grass": 0.3,
            "road": 0.3,
            "sand": 0.2,
            "water": 0.185,
            "snow": 0.01,
            "flowers": 0.005,
        },
        "weather": {"clear": 0.92, "rain": 0.03, "fog": 0.04, "night": 0.01},
        "style": {"photo": 0.975, "painting": 0.015, "sketch": 0.01},
        "companion": {"none": 0.87, "dog": 0.08, "person": 0.04, "ball": 0.01},
    },
    given_class=MappingProxyType(
        {
            (each.object_class, each.attribute): MappingProxyType(_mostly(each.attribute, each.value))
            for each in MISMATCHES
        }
    ),
)


def interface_scenes(split: SeedRange, number: int, per_class: int, *, part: int = 0) -> Iterator[Scene]:
    """Yield ``per_class`` scenes of each class from stretch ``number`` of a split, in order.

    ``part`` is a tenth of the stretch: 0 for a token's training images, 1 for the images of thresholds, 2 for
    the rendered truth.

    Raises:
        ValueError: the split has no such stretch, or the stretch no such part.
    """
    if not (0 <= number < (len(split) - FIRST_SEED) // STRETCH and 0 <= part < 10):
        raise ValueError(f"split {split.name!r} has no stretch {number!r} with a part {part!r}")
    start = FIRST_SEED + number * STRETCH + part * (STRETCH // 10)
    return balanced_scenes(split, USER_DATASET, per_class, start)
