"""A scene: all properties of one image of the miniature world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

VALUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "object_class": ("plate", "sled", "boat", "kite", "fly", "bee", "bus", "tram"),
        "kind": ("plain", "special"),
        "colour": ("red", "yellow", "green", "blue", "white"),
        "background": ("grass", "water", "snow", "sand", "road", "flowers"),
        "weather": ("clear", "rain", "fog", "night"),
        "style": ("photo", "painting", "sketch"),
        "companion": ("none", "dog", "person", "ball"),
    }
)
ATTRIBUTES: tuple[str, ...] = tuple(VALUES)

# Combinations that generator, captioner, perturber and scorer are not trained on: (class, attribute, value).
WITHHELD: tuple[tuple[str, str, str], ...] = (
    ("sled", "background", "sand"),
    ("kite", "weather", "night"),
    ("bus", "style", "painting"),
    ("plate", "colour", "blue"),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene; `nuisance` is the seed of everything else (place, size, texture, noise)."""

    object_class: str
    kind: str
    colour: str
    background: str
    weather: str
    style: str
    companion: str
    nuisance: int

    def __post_init__(self) -> None:
        for attribute, values in VALUES.items():
            value = getattr(self, attribute)
            if value not in values:
                raise ValueError(f"{attribute} must be one of {values}, not {value!r}")
        if self.nuisance < 0:
            raise ValueError(f"nuisance must not be negative, got {self.nuisance!r}")

    def changed(self, attribute: str, value: str) -> Scene:
        """Return the true counterfactual: one attribute changed, every nuisance draw kept."""
        if attribute not in VALUES:
            raise ValueError(f"attribute must be one of {ATTRIBUTES}, not {attribute!r}")
        return replace(self, **{attribute: value})  # type: ignore[arg-type]  # the name is checked above

    def attributes(self) -> dict[str, str]:
        """Return the attributes in order, without the nuisance seed."""
        fields = asdict(self)
        return {attribute: fields[attribute] for attribute in ATTRIBUTES}


def is_withheld(scene: Scene) -> bool:
    """Return True if the scene has a combination that the generating models are not trained on."""
    return any(
        scene.object_class == object_class and getattr(scene, attribute) == value
        for object_class, attribute, value in WITHHELD
    )
