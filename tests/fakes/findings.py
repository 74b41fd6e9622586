"""Findings made by hand, for tests of verdicts and reports."""

from __future__ import annotations

from counterpose_core.contract.findings import ConditionCount, Confirmed, Finding, FindingPair, Screened
from counterpose_core.types import Estimate


def a_finding(**changes: object) -> Finding:
    """A suspicion: leaning takes sleds on snow for boats, 4 of 4 images."""
    known: dict[str, object] = {
        "number": 1,
        "state": "suspected",
        "classifier": "leaning",
        "object_class": "sled",
        "edit_type": "background",
        "removed": "grass",
        "added": "snow",
        "taken_for": "boat",
        "flipped": 4,
        "of": 4,
        "screened": Screened(loss=0.7, n_sources=4, n_images=4, flipped=4),
        "confirmed": None,
        "pairs": [],
        "sentence": "leaning takes sleds for boats once “grass” becomes “snow”: 4 of 4 images.",
    }
    return Finding.model_validate({**known, **changes})


def a_conjunction(**changes: object) -> Finding:
    """Two conditions that hurt sleds together alone."""
    both = [
        ConditionCount(edit_type=edit_type, words=words, n=9, wrong=0)
        for edit_type, words in (("background", "in the snow"), ("object", "lamp"))
    ]
    told = "leaning takes sleds for boats where “in the snow” meets “lamp”: 9 of 9 images."
    known = {"removed": "", "added": "", "conjunction": both, "sentence": told}
    return a_finding(**{**known, **changes})


def a_confirmation(**changes: object) -> Confirmed:
    """A test of 12 pairs that shows the change."""
    known: dict[str, object] = {
        "loss": Estimate(estimate=0.62, low=0.41, high=0.78, n=12),
        "planned": 14,
        "dropped": {"gate-direction": 2},
        "stopped": False,
        "p": 0.0005,
        "p_adjusted": 0.002,
        "family_size": 4,
        "flipped": 10,
    }
    return Confirmed.model_validate({**known, **changes})


def a_pair(edit: str, control: str | None = None, *, loss: float = 0.7) -> FindingPair:
    """One pair of items."""
    return FindingPair(source="source", control=control, edit=edit, loss=loss, answer="boat")
