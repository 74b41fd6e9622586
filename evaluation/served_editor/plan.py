"""What the server plants, as data: no kind and no size of what limits were calibrated on.

The calibration (`evaluation.preservation.planting.CALIBRATION`) has shifts of 2.5, 7 and 14 % along a side
and zooms about the middle, their borders continued; single channels; flat and blurred squares of 12, 20 and
25 %; and other backgrounds and colours. Here are other sizes in any direction, black bars and mirrored
borders; mixed channels; a piece of another image, a shade and a smear; and other attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from counterpose_core.transforms.arrays import Pixels
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.seeds import VALIDATION, scene_for
from evaluation.preservation.planting import (
    Plant,
    gamma,
    hue_matrix,
    leak,
    mixed,
    reshape,
    saturation_matrix,
    shift,
    zoom,
)

WITH_REGION = "with a region"
"""The key of the figures that `evaluation.served_editor.with_region` writes."""
SEED = 40_117
"""Of the plan, of faults and of the server's noise; nothing else in the evaluation draws by it. Runs with a
region draw by the two that follow."""
NOISE = 1.5
"""Standard deviation, in levels, of the grain on every answer: the model's own, so the same for one seed."""
LATE_S, PATIENCE_S = 4.0, 3.0
"""Seconds that a late answer takes, and that the product's client waits."""
_OTHERS, _OTHER_IMAGES = 9_600_000, 4096
"""Validation scenes that no other measurement reads, of which pieces are pasted."""


def pasted(image: Pixels, generator: np.random.Generator, length: int) -> npt.NDArray[Any]:
    """Ink from an image of another scene."""
    other = render(scene_for(VALIDATION, _OTHERS + int(generator.integers(_OTHER_IMAGES)), DATASET))
    return other.astype(np.float32)


def shaded(image: Pixels, generator: np.random.Generator, length: int) -> npt.NDArray[Any]:
    """The image itself, half as bright."""
    return image * np.float32(0.5)


def smeared(image: Pixels, generator: np.random.Generator, length: int) -> npt.NDArray[Any]:
    """The image itself, smeared sideways."""
    smear: npt.NDArray[Any] = scipy.ndimage.uniform_filter1d(image.astype(np.float32), max(3, length), axis=1)
    return smear


FAULTS: Mapping[str, Mapping[str, Plant]] = MappingProxyType(
    {
        "shift": {
            f"{size:.0%}, {border}": partial(shift, size=size, border=border, axis=False)
            for size in (0.02, 0.04, 0.06, 0.09, 0.12, 0.16, 0.2)
            for border in ("reflect", "constant")
        },
        "zoom": {
            f"{scale}, {border}": partial(zoom, scale=scale, border=border, centred=False)
            for scale in (0.84, 0.92, 1.08, 1.18)
            for border in ("reflect", "constant")
        },
        "reshape": {"0.9 wide": partial(reshape, wider=0.9), "1.2 wide": partial(reshape, wider=1.2)},
        "recolour": {
            "hue -40°": partial(mixed, matrix=hue_matrix(-40.0)),
            "saturation x 1.8": partial(mixed, matrix=saturation_matrix(1.8)),
            "cooler": partial(mixed, matrix=np.diag([0.86, 1.0, 1.13])),
            "gamma 0.6": partial(gamma, power=0.6),
            "gamma 1.6": partial(gamma, power=1.6),
        },
        "leak": {
            f"{name} {size:.0%}": partial(leak, side=size, disc=disc, ink=ink)
            for name, disc, ink, sizes in (
                ("pasted square", False, pasted, (0.14, 0.18, 0.28)),
                ("shaded disc", True, shaded, (0.13, 0.17, 0.27)),
                ("smeared square", False, smeared, (0.15, 0.22, 0.32)),
            )
            for size in sizes
        },
    }
)
"""Faults that change the right answer's pixels, by group."""
OVER_EDITED = ("companion", "weather", "style", "kind")
"""Attributes that are changed beside what was asked."""
FAULTY = (*FAULTS, "over-edit", "another image", "ignored")
"""The groups whose images are not what was asked for."""
SIZES = (0.8125, 1.25)
"""Of the answers in another size, in shares of the source's side."""


@dataclass(frozen=True)
class Plan:
    """How often the server does what: a share by group, what is left it obeys; drawn by ``seed``."""

    name: str
    shares: Mapping[str, float]
    seed: int = SEED

    def group(self, generator: np.random.Generator) -> str:
        """Draw what becomes of one question."""
        ends = np.cumsum(list(self.shares.values()))
        place = int(np.searchsorted(ends, generator.random(), side="right"))
        return [*self.shares, "obeys"][place]


PLANS: Mapping[str, Plan] = MappingProxyType(
    {
        "faulty": Plan(
            "faulty",
            {
                "shift": 0.12,
                "zoom": 0.07,
                "reshape": 0.02,
                "recolour": 0.06,
                "leak": 0.09,
                "over-edit": 0.05,
                "another image": 0.02,
                "ignored": 0.05,
                "another size": 0.02,
                "refuses": 0.01,
                "late": 0.003,
            },
        ),
        "honest": Plan("honest", {}),
    }
)
"""The servers that a stress test is run on."""
