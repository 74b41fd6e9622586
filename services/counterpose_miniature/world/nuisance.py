"""The random properties of an image, each drawn from its own stream of the scene's seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np


class Stream(IntEnum):
    """The independent substreams; their numbers affect every image and never change."""

    PLACE = 1
    SIZE = 2
    ANGLE = 3
    FLIP = 4
    OBJECT_PALETTE = 5
    SCENE_PALETTE = 6
    TEXTURE = 7
    NOISE = 8
    COMPANION = 9
    HORIZON = 10
    STYLE = 11
    WEATHER = 12


@dataclass(frozen=True, slots=True)
class Nuisance:
    """Draws in units of the 64-pixel image; colour shifts in 0..255; side -1 left, +1 right."""

    seed: int
    place: tuple[float, float]
    size: float
    angle: float
    flip: bool
    object_palette: tuple[int, int, int]
    scene_palette: tuple[int, int, int]
    companion_side: int
    companion_jitter: tuple[float, float]
    companion_flip: bool
    horizon: float

    def generator(self, stream: Stream) -> np.random.Generator:
        """Return a new generator of one substream, for a variable number of draws (blossoms, streaks)."""
        return _generator(self.seed, stream)


def _generator(seed: int, stream: Stream) -> np.random.Generator:
    return np.random.default_rng([seed, int(stream)])


def nuisance_of(seed: int) -> Nuisance:
    """Draw the nuisance of a scene; every substream has one use only."""
    companion = _generator(seed, Stream.COMPANION)
    place = _generator(seed, Stream.PLACE).uniform(-1.0, 1.0, 2)
    jitter = companion.uniform(-1.0, 1.0, 2)
    return Nuisance(
        seed=seed,
        place=(2.0 * float(place[0]), 2.0 * float(place[1])),
        size=float(_generator(seed, Stream.SIZE).uniform(0.88, 1.12)),
        angle=float(_generator(seed, Stream.ANGLE).uniform(-7.0, 7.0)),
        flip=bool(_generator(seed, Stream.FLIP).random() < 0.5),
        object_palette=_shift(_generator(seed, Stream.OBJECT_PALETTE), 10),
        scene_palette=_shift(_generator(seed, Stream.SCENE_PALETTE), 8),
        companion_side=-1 if companion.random() < 0.5 else 1,
        companion_jitter=(0.8 * float(jitter[0]), 1.5 * float(jitter[1])),
        companion_flip=bool(companion.random() < 0.5),
        horizon=float(_generator(seed, Stream.HORIZON).uniform(21.0, 27.0)),
    )


def _shift(generator: np.random.Generator, reach: int) -> tuple[int, int, int]:
    draws: Any = generator.integers(-reach, reach + 1, 3)
    return int(draws[0]), int(draws[1]), int(draws[2])
