"""What a pair shows about its edit: every score, and of each that is missing the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from counterpose_core.preservation.arrays import (
    WORKING_SIDE,
    Floats,
    grown,
    lab,
    reduced,
    region_within,
    size_within,
)
from counterpose_core.preservation.change import Change, Maps, maps
from counterpose_core.preservation.drift import Drift, drift
from counterpose_core.preservation.region import region_of_change
from counterpose_core.preservation.registration import Registration, has_texture, register, undone
from counterpose_core.transforms.arrays import Mask, Matte, Pixels

LEAST_SIDE = 32
"""Pixels below which nothing is measured: a window would have fewer than three."""
MARGIN = 0.015
"""Share of the longest side, at least a pixel, on both sides of a region's edge that belongs to neither
place: edges are blended."""
NOTICED = 0.004
"""Shift and scale below which the edited image is compared as it lies: laying it back would only blur it."""

Score = Literal["registration", "inside", "outside", "drift", "hue", "patches", "perceptual"]
Reason = Literal[
    "image-too-small",
    "no-texture",
    "nothing-in-common",
    "no-region",
    "no-room",
    "no-majority",
    "no-hue",
    "not-given",
]

REASONS: Mapping[Reason, str] = MappingProxyType(
    {
        "image-too-small": f"an image has a side of fewer than {LEAST_SIDE} pixels",
        "no-texture": "what should stay has too few edges in both directions to show a movement",
        "nothing-in-common": "no shift and scale lay what should stay onto the edited image",
        "no-region": "nothing changed visibly, and no region was given",
        "no-room": "the region leaves not one window of this place",
        "no-majority": "fewer than half of the kept pixels follow one offset and a gain near 1",
        "no-hue": "what should stay is grey",
        "not-given": "no features of patches, or no perceptual distance, were given",
    }
)


@dataclass(frozen=True)
class PreservationScores:
    """What an edit did to a pair; a score that is None has its reason in ``missing``.

    ``size_ratio`` is the edited image's width and height by the source's. ``inside`` and ``outside`` compare
    the region and the rest after a movement is undone. ``region_given`` says whether the region is the
    caller's; of an estimated one the outside holds only what was not visible, so it is evidence of nothing.
    ``region_share`` is its share of the image.
    """

    size_ratio: tuple[float, float]
    region_given: bool
    region_share: float | None = None
    registration: Registration | None = None
    inside: Change | None = None
    outside: Change | None = None
    drift: Drift | None = None
    missing: Mapping[Score, Reason] = field(default_factory=dict)

    @property
    def form(self) -> float:
        """How far width by height changed: 0.1 is ten per cent wider or narrower."""
        across, down = self.size_ratio
        return max(across / down, down / across) - 1.0


@dataclass(frozen=True)
class Compared:
    """A pair on its working grid (H, W): its differences, the region, what of the source is still seen."""

    source: Floats
    differences: Maps
    region: Mask
    visible: Mask
    scores: PreservationScores


def measure(
    source: Pixels,
    edited: Pixels,
    *,
    region: Mask | Matte | None = None,
    patches: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    perceptual: npt.NDArray[np.floating[Any]] | None = None,
) -> PreservationScores:
    """Return how an edit moved, recoloured and changed an image, inside and outside the region asked for.

    Args:
        source: the image (H, W, 3), sRGB.
        edited: what an editor made of it, of any size.
        region: true, or at least 128, (H, W) where the source was to change; estimated if left out. An empty
            one is a control's, of which nothing was to change.
        patches: a network's features (h, w, d) of the patches of source and edited image.
        perceptual: a perceptual distance (h, w) of the pair by place, such as LPIPS by the caller's backbone.

    Raises:
        NumericalFailure: a feature is zero or not finite.
        ValueError: the region has another size than the source, or the patches differ in shape.
    """
    if region is not None and region.shape != source.shape[:2]:
        raise ValueError(
            f"the region is {region.shape}, but the source {source.shape[:2]}; give the source's own"
        )
    if min(*source.shape[:2], *edited.shape[:2]) < LEAST_SIDE:
        missing: dict[Score, Reason] = dict.fromkeys(get_args(Score), "image-too-small")
        return PreservationScores(_size_ratio(source, edited), region is not None, missing=missing)
    return compared(source, edited, region=region, patches=patches, perceptual=perceptual).scores


def compared(
    source: Pixels,
    edited: Pixels,
    *,
    region: Mask | Matte | None = None,
    patches: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    perceptual: npt.NDArray[np.floating[Any]] | None = None,
) -> Compared:
    """Return the pair as `measure` compares it; no side may be below `LEAST_SIDE`."""
    missing: dict[Score, Reason] = {}
    size = size_within(source.shape, WORKING_SIDE)
    first, second = reduced(source, size), reduced(edited, size)
    given = None if region is None else region_within(region, size)
    edge = max(1.0, MARGIN * max(size))
    aside = np.zeros(size, dtype=np.bool_) if given is None else grown(given, edge)
    movement = _registered(first, second, ~aside, missing)
    within = np.ones(size, dtype=np.bool_)
    if movement is not None and max(movement.moved, movement.scaled) >= NOTICED:
        second, within = undone(second, movement)
    colours = lab(first), lab(second)
    differences = maps(first, second, colours, patches, perceptual)
    place = region_of_change(differences) if given is None else given
    outside, inside = within & ~grown(place, edge), within & place & ~grown(~place, edge)
    # As PIE-Bench blanks the region in both images: no window outside sees what was asked for, or the border.
    blank = (aside | ~within)[..., None]
    beside = np.where(blank, first, second), (colours[0], np.where(blank, *colours))
    rest = maps(first, *beside, patches, perceptual) if blank.any() else differences
    changes = {"inside": differences.within(inside), "outside": rest.within(outside)}
    if given is None and not place.any():
        missing["inside"] = "no-region"
    # Of an estimated region the rest is what hardly changed; a drift that all pixels share is seen in all.
    steady = within if given is None else outside
    drifted = drift(first, second, colours, steady) if steady.any() else None
    _name_missing(changes, drifted, missing, patches is None, perceptual is None)
    scores = PreservationScores(
        _size_ratio(source, edited),
        given is not None,
        float(place.mean()),
        movement,
        **changes,
        drift=drifted,
        missing=missing,
    )
    return Compared(first, differences, place, within, scores)


def _registered(
    first: Floats, second: Floats, steady: Mask, missing: dict[Score, Reason]
) -> Registration | None:
    if not has_texture(first, steady):
        missing["registration"] = "no-texture"
        return None
    movement = register(first, second, steady)
    if movement is None:
        missing["registration"] = "nothing-in-common"
    return movement


def _name_missing(
    changes: Mapping[str, Change | None],
    drifted: Drift | None,
    missing: dict[Score, Reason],
    *not_given: bool,
) -> None:
    for name in ("inside", "outside"):
        if changes[name] is None:
            missing.setdefault(name, "no-room")
    if drifted is None:
        reason: Reason = "no-room" if changes["outside"] is None else "no-majority"
        missing |= {"drift": reason, "hue": reason}
    elif drifted.hue is None:
        missing["hue"] = "no-hue"
    absent: tuple[Score, Score] = ("patches", "perceptual")
    missing |= {name: "not-given" for name, gone in zip(absent, not_given, strict=True) if gone}


def _size_ratio(source: Pixels, edited: Pixels) -> tuple[float, float]:
    (height, width), (rows, columns) = source.shape[:2], edited.shape[:2]
    return columns / width, rows / height
