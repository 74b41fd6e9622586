"""A user's dataset, in which some classes look unlike what their bare name brings up in the generator.

What a name brings up was measured: plates are empty and boats are whole in 24 of 24 images of "a photo of
a <class>", trams yellow or white in 24 of 24 (docs/experiments/tokens.md). Here plates have food on them
(contents), trams are green (colour), boats are seen so close that they run out of the frame (framing).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from faultline_miniature.world.sampling import Distribution
from faultline_miniature.world.scene import VALUES, Scene
from faultline_miniature.world.seeds import SeedRange, balanced_scenes

Sort = Literal["contents", "colour", "framing"]
_USUAL = 0.97
FIRST_SEED = 6_000_000
STRETCH = 100_000
"""Seeds of a split from `FIRST_SEED` on are the interfaces' alone; each number has a stretch of its own."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What nearly every image of a class shows in the dataset and hardly one of its bare name."""

    object_class: str
    sort: Sort
    attribute: str
    value: str

    def shown_by(self, seen: Mapping[str, str]) -> bool:
        """Whether an image with these attributes shows it."""
        return seen[self.attribute] == self.value


# Size and place are nuisance draws of 12 % and two pixels, too little to be a framing that anybody notices;
# the boat's close-up is 1.4 times as large and cut off by the frame.
MISMATCHES: tuple[Mismatch, ...] = (
    Mismatch("plate", "contents", "kind", "special"),
    Mismatch("tram", "colour", "colour", "green"),
    Mismatch("boat", "framing", "kind", "special"),
)
MISMATCHED_CLASSES: tuple[str, ...] = tuple(each.object_class for each in MISMATCHES)
MATCHED_CLASSES: tuple[str, ...] = tuple(
    name for name in VALUES["object_class"] if name not in MISMATCHED_CLASSES
)


def _mostly(attribute: str, value: str) -> dict[str, float]:
    rest = (1.0 - _USUAL) / (len(VALUES[attribute]) - 1)
    return {name: _USUAL if name == value else rest for name in VALUES[attribute]}


# Photographs of fair days on grass, sand and roads: what a benchmark asks for beyond is rare in training, and
# some of it rarer than other, so that shifts differ in what they cost.
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

    ``part`` counts tenths of the stretch, so that the images a token learns from (0), those that
    thresholds are taken from (1) and those that truth is rendered from (2) are apart.

    Raises:
        ValueError: the split has no such stretch, or the stretch no such part.
    """
    if not (0 <= number < (len(split) - FIRST_SEED) // STRETCH and 0 <= part < 10):
        raise ValueError(f"split {split.name!r} has no stretch {number!r} with a part {part!r}")
    start = FIRST_SEED + number * STRETCH + part * (STRETCH // 10)
    return balanced_scenes(split, USER_DATASET, per_class, start)
