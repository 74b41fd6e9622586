"""Exponential backoff with jitter: one rule for the SDK, the gateway's calls and the worker's ledger.

It is written by hand because it is one line of arithmetic, and each caller decides differently when to retry.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_MAX_DOUBLINGS = 60
"""Longer than any caller waits, and still a finite float."""


@dataclass(frozen=True)
class Backoff:
    """Pauses that double from ``first_s`` seconds to ``longest_s``, shortened at random by up to half."""

    first_s: float
    longest_s: float

    def pause(self, attempt: int, jitter: random.Random) -> float:
        """Return the seconds to wait after attempt number ``attempt``, counted from 1, has failed.

        ``jitter`` should be the caller's own unseeded generator, so that clients that lost their connection
        at the same moment do not retry at the same moment, even if a program seeds the global generator.
        """
        whole = min(self.first_s * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS), self.longest_s)
        return whole * (0.5 + jitter.random() / 2)
