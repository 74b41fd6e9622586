"""Shift thresholds as text of a terminal: what to look at, what is in force, what somebody decided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from faultline_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ThresholdInForce,
)

_SHIFT = 36


def inspections_table(seen: Inspections, places: Mapping[tuple[float, str], Path]) -> str:
    """A line for each picture: its percentile, its item, and where it is.

    That is its file in ``places``, by percentile and item, or else its reference. Similarities are CLIP's
    cosines, from -1 to 1; the one at the percentile is the threshold that accepting it would set.
    """
    lines = [f"{'percentile':>10} {'similarity there':>16} {'of the picture':>14}  item  class  picture"]
    lines += [
        f"{row.percentile:>10g} {row.similarity:>16.3f} {each.similarity:>14.3f}  "
        f"{each.item}  {each.class_name}  {places.get((row.percentile, each.item), each.image)}"
        for row in seen.inspections
        for each in row.pictures
    ]
    return "\n".join(lines)


def thresholds_table(found: ShiftThresholds) -> str:
    """A line for each shift with the threshold in force, then every decision, oldest first."""
    lines = [f"{'shift':{_SHIFT}} {'threshold':>14}  set by"]
    lines += [
        f"{name:{_SHIFT}} {_applied(each):>14}  {each.author or each.set_by or 'nobody'}"
        for name, each in found.in_force.items()
    ]
    told = [f"decision {each.id}: {decision_line(each)}" for each in found.decisions]
    return "\n".join([*lines, *([""] if told else []), *told])


def decision_line(made: ShiftThresholdDecision) -> str:
    """What somebody decided, in one line."""
    passes = "nothing passes" if made.threshold is None else f"passes from {made.threshold:.3f} on"
    at = "" if made.percentile is None else f", percentile {made.percentile:g}"
    above = ", ".join(f"{each:g}" for each in made.failing_above)
    lacking = f"; some picture lacks it at {above}" if above else ""
    return f"{made.shift}: {passes}{at}{lacking} ({made.author}, {made.decided_at:%Y-%m-%d %H:%M} UTC)"


def _applied(told: ThresholdInForce) -> str:
    if told.nothing_passes:
        return "nothing passes"
    return "not applied" if told.threshold is None else f"{told.threshold:.3f}"
