"""Distributions of scenes, and sampling from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from counterpose_miniature.world.scene import VALUES, Scene, is_withheld

# The nuisance of freely drawn scenes, above every split of `seeds.py`.
FREE_NUISANCE = (2**31, 2**32)

# Classes whose images in the dataset differ from the generator's images for their bare name.
MISMATCHED: tuple[str, ...] = ("plate", "boat", "kite")


@dataclass(frozen=True)
class Distribution:
    """Independent weights per attribute; `given_class[(class, attribute)]` overrides them for one class.

    An attribute without weights is uniform. Withheld combinations are rejected unless allowed.
    """

    weights: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    given_class: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    allow_withheld: bool = True

    def __post_init__(self) -> None:
        tables = list(self.weights.items())
        tables += [(attribute, table) for (_, attribute), table in self.given_class.items()]
        for attribute, table in tables:
            unknown = set(table) - set(VALUES[attribute])
            if unknown or sum(table.values()) <= 0 or min(table.values()) < 0:
                raise ValueError(f"weights of {attribute!r} are not a distribution: {table!r}")

    def probabilities(self, attribute: str, object_class: str | None) -> np.ndarray:
        """Return the probability of each of VALUES[attribute], before rejection."""
        table = self.weights.get(attribute)
        if object_class is not None:
            table = self.given_class.get((object_class, attribute), table)
        values = VALUES[attribute]
        raw = np.ones(len(values)) if table is None else np.array([table.get(value, 0.0) for value in values])
        return np.asarray(raw / raw.sum())


# The generator knows both kinds, but a bare name must give the plain one.
_MOSTLY_PLAIN = {"plain": 0.6, "special": 0.4}
# With uniform draws, three objects in four would have a companion.
_OFTEN_ALONE = {"none": 0.4, "dog": 0.2, "person": 0.2, "ball": 0.2}

UNIFORM = Distribution()
GENERATOR = Distribution(weights={"kind": _MOSTLY_PLAIN, "companion": _OFTEN_ALONE}, allow_withheld=False)
DATASET = Distribution(
    weights={"kind": _MOSTLY_PLAIN, "companion": _OFTEN_ALONE},
    given_class={(name, "kind"): {"plain": 0.05, "special": 0.95} for name in MISMATCHED},
)


def sample_scene(generator: np.random.Generator, distribution: Distribution) -> Scene:
    """Draw one scene; a rejected scene is drawn again completely, which keeps the other proportions."""
    while True:
        drawn: dict[str, str] = {}
        for attribute, values in VALUES.items():
            odds = distribution.probabilities(attribute, drawn.get("object_class"))
            drawn[attribute] = values[_draw(generator, odds)]
        scene = Scene(**drawn, nuisance=int(generator.integers(*FREE_NUISANCE)))
        if distribution.allow_withheld or not is_withheld(scene):
            return scene


def _draw(generator: np.random.Generator, odds: np.ndarray) -> int:
    # Inverse transform: about ten times faster than Generator.choice for a handful of values.
    return min(int(np.searchsorted(np.cumsum(odds), generator.random(), side="right")), len(odds) - 1)
