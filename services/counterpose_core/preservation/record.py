"""What is recorded of a pair: its scores, the faults beyond the limits, and its difference map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterpose_core.contract.preservation import (
    FAULTS,
    OF_CONTROLS,
    OF_EDITS,
    Fault,
    Movement,
    PlaceChange,
    Preservation,
)
from counterpose_core.preservation.change import Change
from counterpose_core.preservation.difference_map import drawn
from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.scores import LEAST_SIDE, PreservationScores, compared, measure
from counterpose_core.transforms.arrays import Mask, Pixels


def recorded(
    source: Pixels, edited: Pixels, *, control: bool, region: Mask | None = None
) -> tuple[Preservation, Pixels | None]:
    """Measure a pair; return the record, without its map, and the map (h, w, 3).

    Args:
        source: the image (H, W, 3), sRGB.
        edited: what an editor made of it, of any size.
        control: whether nothing was to change.
        region: true (H, W) where the edit was to change the source. Without it the region is estimated, so
            nothing is called drifted or leaked.

    Returns:
        The record, and None in the place of a map if a side has fewer than `LEAST_SIDE` pixels.
    """
    named = OF_EDITS if region is None else FAULTS
    if control:
        region, named = np.zeros(source.shape[:2], dtype=np.bool_), OF_CONTROLS
    if min(*source.shape[:2], *edited.shape[:2]) < LEAST_SIDE:
        return _record(measure(source, edited, region=region), control, named), None
    pair = compared(source, edited, region=region)
    return _record(pair.scores, control, named), drawn(pair)


def _record(scores: PreservationScores, control: bool, named: Sequence[Fault]) -> Preservation:
    moved, drift = scores.registration, scores.drift
    return Preservation(
        control=control,
        faults=[fault for fault in Limits().faults(scores) if fault in named],
        unmeasured=[fault for fault in _unmeasured(scores) if fault in named],
        size_ratio=scores.size_ratio,
        movement=None
        if moved is None
        else Movement(shift=moved.shift, scale=moved.scale, visible=moved.visible),
        region_share=scores.region_share,
        inside=_place(scores.inside),
        outside=_place(scores.outside),
        drift_colour=None if drift is None else drift.colour,
        drift_hue=None if drift is None else drift.hue,
        missing=dict(scores.missing),
    )


def _unmeasured(scores: PreservationScores) -> list[Fault]:
    """Return the faults that the scores cannot tell; the form is always known."""
    absent: dict[Fault, bool] = {
        "moved": scores.registration is None,
        "scaled": scores.registration is None,
        "drifted": scores.drift is None,
        "leaked": scores.outside is None,
        # Without a region nothing changed visibly, which is the fault.
        "ignored": scores.inside is None and scores.missing.get("inside") != "no-region",
    }
    return [fault for fault, is_absent in absent.items() if is_absent]


def _place(change: Change | None) -> PlaceChange | None:
    if change is None:
        return None
    return PlaceChange(
        share=change.share,
        structure=change.structure,
        colour=change.colour,
        worst_structure=change.worst_structure,
        worst_colour=change.worst_colour,
    )
