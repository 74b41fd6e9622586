"""What validation against rendered truth measured of the words that a summary uses."""

from __future__ import annotations

from counterpose_core.types import Estimate

SUSPECTED: Estimate | None = Estimate(estimate=1.0, low=0.478, high=1.0, n=12)
"""The share of suspicions that are true bugs, over n suspicions of validation; None until it is measured."""


def precision_in_words(measured: Estimate | None) -> str:
    """Say how many suspicions were true; empty where nothing was measured."""
    if measured is None or measured.estimate is None or measured.low is None or measured.high is None:
        return ""
    true = round(measured.estimate * measured.n)
    low, high = round(100 * measured.low), round(100 * measured.high)
    return (
        f"In validation {true} of {measured.n} such suspicions were true bugs "
        f"({round(100 * measured.estimate)} %, 95 % interval {low} to {high} %)."
    )
