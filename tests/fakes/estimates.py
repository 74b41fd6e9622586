"""Answers to requests for estimates, which create nothing."""

from __future__ import annotations

from typing import Any

import httpx

from fakes.sdk import ok

_ESTIMATE: dict[str, Any] = {
    "images": 48, "screened": 24, "fresh": 24, "items": 336, "minutes": None, "fastest": None,
    "slowest": None, "runs": 0, "hypotheses": 4, "least_pairs": 7, "power": 0.75, "classes": [],
    "reason": None,
}  # fmt: skip
HUNT_ESTIMATE: dict[str, Any] = {
    "images": 600, "captions": 64, "minutes": 10.4, "fastest": 8.0, "slowest": 20.0, "runs": 3,
    "images_in_time": None, "shares": {"baseline": 160, "hypotheses": 152, "held_out": 96}, "tests": 2,
    "power": 0.8, "findable": 0.0186, "provable": 0.08, "reason": None,
}  # fmt: skip


def estimate_answer() -> httpx.Response:
    """What a stress test would take."""
    return ok(_ESTIMATE)


def hunt_estimate_answer() -> httpx.Response:
    """What a bug hunt would take."""
    return ok(HUNT_ESTIMATE)


ESTIMATES = (estimate_answer, hunt_estimate_answer)
