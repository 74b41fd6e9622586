"""Tables of the closed language: phrases, templates, synonyms, and words that determine values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from counterpose_miniature.world.scene import ATTRIBUTES, VALUES

# {} takes the colour. "plate of food", "patchwork kite" and "close-up of a boat" are the dataset kinds.
SPECIAL_SUBJECTS: Mapping[str, str] = MappingProxyType(
    {
        "plate": "{}plate of food",
        "sled": "{}sled with gifts",
        "boat": "close-up of a {}boat",
        "kite": "{}patchwork kite",
        "fly": "{}fly with spread wings",
        "bee": "{}bee with spread wings",
        "bus": "{}double-decker bus",
        "tram": "{}double-decker tram",
    }
)
# One word that identifies the special kind, even after other words of the caption were edited.
SPECIAL_MARKS: Mapping[str, str] = MappingProxyType(
    {
        "plate": "food",
        "sled": "gifts",
        "boat": "close-up",
        "kite": "patchwork",
        "fly": "spread",
        "bee": "spread",
        "bus": "double-decker",
        "tram": "double-decker",
    }
)
PHRASES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "background": {
            "grass": "on the grass",
            "water": "on the water",
            "snow": "in the snow",
            "sand": "on the sand",
            "road": "on the road",
            "flowers": "among the flowers",
        },
        "weather": {"clear": "", "rain": "in the rain", "fog": "in the fog", "night": "at night"},
        "companion": {
            "none": "",
            "dog": "next to a dog",
            "person": "next to a person",
            "ball": "next to a ball",
        },
    }
)

TEMPLATES: tuple[str, ...] = (
    "a {style} of a {subject} {background} {weather} {companion}",
    "a {style} of a {subject} {companion} {background} {weather}",
    "a {subject} {companion} {background} {weather} , a {style}",
    "{background} {weather} , a {style} of a {subject} {companion}",
    "a {style} , a {subject} {weather} {background} {companion}",
)
# Kept out of the perturber's training, to measure it on an unknown sentence structure.
WITHHELD_TEMPLATES: tuple[int, ...] = (4,)

# Placebos: wording changes, no attribute does.
SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "photo": ("picture", "photograph"),
        "painting": ("canvas",),
        "sketch": ("drawing",),
        "next to": ("beside", "near"),
        "on the grass": ("on the lawn",),
        "on the water": ("on the lake",),
        "in the snow": ("in deep snow",),
        "on the sand": ("on the beach",),
        "on the road": ("on the street",),
        "among the flowers": ("among the blossoms",),
        "in the rain": ("in rainy weather",),
        "in the fog": ("in the mist",),
        "at night": ("after dark",),
    }
)

_SYNONYM_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "picture": ("style", "photo"),
        "photograph": ("style", "photo"),
        "canvas": ("style", "painting"),
        "drawing": ("style", "sketch"),
        "lawn": ("background", "grass"),
        "lake": ("background", "water"),
        "beach": ("background", "sand"),
        "street": ("background", "road"),
        "blossoms": ("background", "flowers"),
        "rainy": ("weather", "rain"),
        "mist": ("weather", "fog"),
        "dark": ("weather", "night"),
    }
)
# Each value has a word of its own, except "none", "clear" and the kinds, which `parse` infers.
WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {value: (name, value) for name in ATTRIBUTES if name != "kind" for value in VALUES[name]}
    | dict(_SYNONYM_WORDS)
)
