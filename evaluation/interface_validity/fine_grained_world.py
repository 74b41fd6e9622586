"""A fine-grained dataset: six kinds of bus with codes as names, which the generator has never seen.

Their tokens start from one shared word, as the paper's for aircraft and pets (DI, appendix D).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.seeds import SeedRange
from counterpose_miniature.world.user_dataset import interface_scenes

INITIALISER = "bus"
"""The word that describes all of them."""

FINE_CLASSES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "f101": ("plain", "red"),
        "f102": ("special", "red"),
        "f201": ("plain", "blue"),
        "f202": ("special", "blue"),
        "f301": ("plain", "white"),
        "f302": ("special", "green"),
    }
)
"""The kind (special: with an upper deck) and the colour of each code."""

_PART = 5
"""The part of a stretch; the parts before it belong to the user's dataset."""


def code_of(scene: Scene) -> str:
    """Return the code of a bus.

    Raises:
        KeyError: there is no code for it.
    """
    return {shown: code for code, shown in FINE_CLASSES.items()}[scene.kind, scene.colour]


def fine_grained_scenes(split: SeedRange, number: int, per_class: int) -> Iterator[Scene]:
    """Yield ``per_class`` scenes of each code, one code after the other, from stretch ``number``.

    Other attributes and nuisances are those of the user's dataset; no two scenes share a nuisance.

    Raises:
        ValueError: the split has no such stretch.
    """
    drawn = interface_scenes(split, number, -(-len(FINE_CLASSES) * per_class // 8), part=_PART)
    for code in (code for code in FINE_CLASSES for _ in range(per_class)):
        kind, colour = FINE_CLASSES[code]
        yield replace(next(drawn), object_class=INITIALISER, kind=kind, colour=colour)
