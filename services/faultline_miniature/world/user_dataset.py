"""A user's dataset, in which some classes look unlike what their bare name brings up in the generator.

What a name brings up was measured: plates are empty and boats are whole in 24 of 24 images of "a photo of
a <class>", trams yellow or white in 24 of 24 (docs/experiments/tokens.md). Here plates have food on them
(contents), trams are green (colour), boats are seen so close that they run out of the frame (framing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from faultline_miniature.world.sampling import Distribution
from faultline_miniature.world.scene import VALUES

Sort = Literal["contents", "colour", "framing"]


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

_USUAL = 0.97


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
