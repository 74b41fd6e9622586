"""What the rows of both stretches come to: what one says of the limits, and their rates on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from counterpose_core.contract.preservation import Fault
from counterpose_core.preservation.change import Change
from counterpose_core.preservation.drift import Drift
from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.registration import Registration
from counterpose_core.preservation.scores import PreservationScores
from counterpose_core.statistics.bootstrap import proportion
from evaluation.preservation.planting import STRETCHES, Stretch

Row = Mapping[str, Any]

QUIET = ("exact", "grain of 2 levels")
"""Servers of the calibration that limits are set on; what others add to an image, their controls tell."""
NAMES: Mapping[str, tuple[Fault, ...]] = {
    "shift": ("moved",),
    "zoom": ("moved", "scaled"),
    "reshape": ("reshaped",),
    "recolour": ("drifted", "leaked"),
    "leak": ("leaked",),
    "over-edit": ("leaked",),
    "ignored": ("ignored",),
}
"""What a fault of each group should be called."""


_Of = Callable[[PreservationScores], float | None]
_SOUGHT: Mapping[str, tuple[_Of, str, str]] = {
    "moved": (lambda scores: None if scores.registration is None else scores.registration.moved, "shift", ""),
    "scaled": (
        lambda scores: None if scores.registration is None else scores.registration.scaled,
        "zoom",
        "",
    ),
    "colour": (lambda scores: None if scores.drift is None else scores.drift.colour, "recolour", ""),
    "leak_structure": (
        lambda scores: None if scores.outside is None else scores.outside.worst_structure,
        "leak",
        "blurred",
    ),
    "leak_colour": (
        lambda scores: None if scores.outside is None else scores.outside.worst_colour,
        "leak",
        "flat",
    ),
}
_INSIDE: Mapping[str, _Of] = {
    "ignored_structure": lambda scores: None if scores.inside is None else scores.inside.worst_structure,
    "ignored_colour": lambda scores: None if scores.inside is None else scores.inside.worst_colour,
}


def read_scores(stored: Mapping[str, Any]) -> PreservationScores:
    """Return scores as they were before they became JSON."""
    parts: dict[str, Callable[..., Any]] = {
        "registration": Registration, "inside": Change, "outside": Change, "drift": Drift,
    }  # fmt: skip
    parts_read = {name: stored[name] and part(**stored[name]) for name, part in parts.items()}
    return PreservationScores(**{**stored, **parts_read})


def figures(stretches: Mapping[str, Sequence[Row]], limits: Limits | None = None) -> dict[str, Any]:
    """Return what the calibration says of each limit, and every rate under the limits of the code."""
    used = limits or Limits()
    return {
        "stretches": {name: _declared(stretch) for name, stretch in STRETCHES.items()},
        "limits": {name: getattr(used, name) for name in used.__dataclass_fields__ if name != "controls"},
        "limits by the calibration": calibration(stretches["calibration"]),
        **{name: rates(rows, used) for name, rows in stretches.items()},
    }


def _declared(stretch: Stretch) -> dict[str, Any]:
    return {
        "split": stretch.split,
        "first": stretch.first,
        "faults": {group: list(faults) for group, faults in stretch.faults.items()},
        "over_edited": list(stretch.over_edited),
        "servers": list(stretch.servers),
    }


def calibration(rows: Iterable[Row]) -> dict[str, Any]:
    """Return for each limit what 98 % of edits stay below that it should let pass, and 95 % of faults reach.

    A limit of texture is held against faults of texture, one of colour against those of colour.
    """
    quiet = [(row, read_scores(row["scores"])) for row in rows if row["server"] in QUIET and row["region"]]
    good = [scores for row, scores in quiet if row["group"] == "good"]
    ignored = [scores for row, scores in quiet if row["group"] == "ignored"]
    ends: dict[str, Any] = {}
    for name, (of, group, kind) in _SOUGHT.items():
        bad = [scores for row, scores in quiet if row["group"] == group and kind in row["fault"]]
        ends[name] = _between(_values(of, good), _values(of, bad))
    return ends | {name: _between(_values(of, ignored), _values(of, good)) for name, of in _INSIDE.items()}


def _values(of: _Of, scores: Iterable[PreservationScores]) -> list[float]:
    return [value for pair in scores if (value := of(pair)) is not None]


def _between(low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    if not low or not high:
        return {"n": [len(low), len(high)]}
    ends = float(np.quantile(low, 0.98)), float(np.quantile(high, 0.05))
    return {"let pass": _short(ends[0]), "fault": _short(ends[1]), "n": [len(low), len(high)]}


def rates(rows: Sequence[Row], limits: Limits) -> dict[str, Any]:
    """Return how often good edits are refused, and faults found and rightly named."""
    raised = _raised(rows, limits)
    judged = [
        {**row, "faults": raised[_server(row)].faults(read_scores(row["scores"]))}
        for row in rows
        if row["group"] != "control"
    ]
    groups: dict[str, Any] = {}
    for region in (True, False):
        of_region = [row for row in judged if row["region"] is region]
        shares = {"false refusals": _refused([row for row in of_region if row["group"] == "good"])}
        for group, names in NAMES.items():
            if of_group := [row for row in of_region if row["group"] == group]:
                shares[group] = _found(of_group, names)
        groups["region given" if region else "no region"] = shares
    factors = {
        f"{server}, {side}": _short(own_limits.leak_colour / limits.leak_colour)
        for (server, side), own_limits in raised.items()
    }
    overlap = [row["overlap"] for row in judged if "overlap" in row]
    return {
        **groups,
        "raised by controls": factors,
        "region estimated": {
            "n": len(overlap),
            "quartiles of overlap": [_short(share) for share in np.quantile(overlap, (0.25, 0.5, 0.75))],
        }
        if overlap
        else {"n": 0},
    }


def _server(row: Row) -> tuple[str, int]:
    return row["server"], row["side"]


def _raised(rows: Sequence[Row], limits: Limits) -> dict[tuple[str, int], Limits]:
    controls: dict[tuple[str, int], list[PreservationScores]] = {_server(row): [] for row in rows}
    for row in rows:
        if row["group"] == "control":
            controls[_server(row)].append(read_scores(row["scores"]))
    return {server: limits.raised(scores) or limits for server, scores in controls.items()}


def _refused(rows: Sequence[Row]) -> dict[str, Any]:
    by = {"all": rows} | {f"{side} px": [row for row in rows if row["side"] == side] for side in (64, 256)}
    by |= {
        server: [row for row in rows if row["server"] == server]
        for server in sorted({row["server"] for row in rows})
    }
    reasons = sorted({fault for row in rows for fault in row["faults"]})
    return {
        **{name: _rate(bool(row["faults"]) for row in subset) for name, subset in by.items()},
        "by fault": {fault: sum(fault in row["faults"] for row in rows) for fault in reasons},
    }


def _found(rows: Sequence[Row], names: Sequence[Fault]) -> dict[str, Any]:
    """Of a scene with several faults of a group all must be found: they are not independent."""
    by_scene: dict[int, list[Row]] = {}
    for row in rows:
        by_scene.setdefault(row["index"], []).append(row)
    scenes = list(by_scene.values())
    return {
        "found": _rate(all(row["faults"] for row in planted) for planted in scenes),
        "named": _rate(all(set(names) & set(row["faults"]) for row in planted) for planted in scenes),
        **{
            f"found, {side} px": _rate(
                all(row["faults"] for row in planted) for planted in scenes if planted[0]["side"] == side
            )
            for side in (64, 256)
        },
        "found by kind": {
            kind: _rate(bool(row["faults"]) for row in rows if row["fault"] == kind)
            for kind in sorted({row["fault"] for row in rows})
        },
    }


def _rate(hits: Iterable[bool]) -> dict[str, Any]:
    every = list(hits)
    rate = proportion(sum(every), len(every)).model_dump()
    return {name: value if value is None or name == "n" else round(value, 4) for name, value in rate.items()}


def _short(value: float) -> float:
    return float(f"{value:.3g}")
