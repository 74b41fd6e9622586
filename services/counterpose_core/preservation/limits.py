"""Limits of what an edit may do beside what was asked for, and the faults of a pair that is beyond them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterpose_core.contract.preservation import FAULTS, Fault
from counterpose_core.preservation.scores import PreservationScores

LEVEL = 0.05
"""The share of edits without a fault that may be refused."""
USUAL = 0.75
"""Quantile of the controls that is an editor's usual noise, by which its unusual one is measured."""
_CHANGES = ("colour", "hue", "leak_structure", "leak_colour")


@dataclass(frozen=True)
class Limits:
    """What is let pass, as set on one stretch of rendered edits (`evaluation/results/preservation.json`).

    A limit lies between what edits without fault reach there and what faults do; half of a movement of 2 % is
    one. None was set on what the limits are tested on.

    ``form``, ``moved`` and ``scaled`` are shares: of the ratio of the sides, of a side, of the scale.
    ``colour`` and ``hue`` limit the drift, in ΔE*ab and degrees; ``leak_structure`` and ``leak_colour`` the
    worst window outside the region, in 1 - SSIM and ΔE*ab. Below both of ``ignored_structure`` and
    ``ignored_colour``, the worst window inside shows no edit. ``controls`` counts the edits without a change
    that raised them.
    """

    form: float = 0.02
    moved: float = 0.01
    scaled: float = 0.015
    colour: float = 3.0
    hue: float = 6.0
    leak_structure: float = 0.3
    leak_colour: float = 4.0
    ignored_structure: float = 0.3
    ignored_colour: float = 4.0
    controls: int = 0

    def raised(self, controls: Sequence[PreservationScores], level: float = LEVEL) -> Limits | None:
        """Return the limits with what this editor does to every image; None of too few controls.

        A limit of change becomes the upper quartile of the controls, if that is larger. Then all are raised
        by one factor, the conformal quantile (Vovk et al. 2005, section 2.2) of how far beyond them a control
        is: so of edits whose rest differs as controls do, about ``level`` are refused for it, whatever the
        editor's noise is. A movement is none.

        Args:
            controls: images and what the editor made of them when asked to change nothing, measured with an
                empty region: noise may be as large as a change, and an estimated region would hold it.
            level: the share that may be refused; needs 1 / level - 1 controls.

        Raises:
            ValueError: the region of a control was estimated.
        """
        if not all(control.region_given for control in controls):
            raise ValueError("a control has no region; measure it with an empty one: nothing was to change")
        place = math.ceil((1 - level) * (len(controls) + 1))
        if place > len(controls):
            return None
        changes = np.array([_changes(control) for control in controls])
        usual = np.maximum(np.quantile(changes, USUAL, axis=0), [getattr(self, name) for name in _CHANGES])
        beyond = np.sort((changes / usual).max(axis=1))
        limits = dict(zip(_CHANGES, (max(1.0, beyond[place - 1]) * usual).tolist(), strict=True))
        ignored = {
            f"ignored_{name}": getattr(self, f"ignored_{name}")
            * limits[f"leak_{name}"]
            / getattr(self, f"leak_{name}")
            for name in ("structure", "colour")
        }
        return replace(self, **limits, **ignored, controls=len(controls))

    def faults(self, scores: PreservationScores) -> tuple[Fault, ...]:
        """Return in the order of `FAULTS` what is beyond its limit; what could not be measured is no fault.

        Leak and drift are only told of a region that the caller gave: else nobody knows what should have
        stayed.
        """
        moved, inside = scores.registration, scores.inside
        colour, hue, structure, leak = _changes(scores)
        beyond = {
            "reshaped": scores.form > self.form,
            "moved": moved is not None and moved.moved > self.moved,
            "scaled": moved is not None and moved.scaled > self.scaled,
            "drifted": scores.region_given and (colour > self.colour or hue > self.hue),
            "leaked": scores.region_given and (structure > self.leak_structure or leak > self.leak_colour),
            "ignored": scores.missing.get("inside") == "no-region"
            or (
                inside is not None
                and inside.worst_structure <= self.ignored_structure
                and inside.worst_colour <= self.ignored_colour
            ),
        }
        return tuple(fault for fault in FAULTS if beyond[fault])


def _changes(scores: PreservationScores) -> tuple[float, float, float, float]:
    """Return what `_CHANGES` limit, 0 of what could not be measured."""
    drift, outside = scores.drift, scores.outside
    drifted = (0.0, 0.0) if drift is None else (drift.colour, abs(drift.hue or 0.0))
    return *drifted, *((0.0, 0.0) if outside is None else (outside.worst_structure, outside.worst_colour))
