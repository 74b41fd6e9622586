"""Exponential backoff with jitter: one rule for the SDK, the gateway's calls and the worker's ledger.

By hand and not from a library: it is one line of arithmetic, and each caller has its own reasons to go on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_MAX_DOUBLINGS = 60
"""Beyond any patience, and a float still holds it."""


@dataclass(frozen=True)
class Backoff:
    """Pauses that double from ``first_s`` seconds to ``longest_s``, shortened at random by up to half."""

    first_s: float
    longest_s: float

    def pause(self, attempt: int, jitter: random.Random) -> float:
        """Return the seconds to wait after attempt number ``attempt``, counted from 1, has failed.

        ``jitter`` should be unseeded and the caller's own: clients that one restart has thrown off must not
        come back in step, nor because a program seeded the global generator.
        """
        whole = min(self.first_s * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS), self.longest_s)
        return whole * (0.5 + jitter.random() / 2)
