"""What a request to a service makes it ask servers of others for, added up over all threads of its work."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from counterpose_core.contract.spending import Spent
from counterpose_services.openai_api.answers import Drawings

NOTHING = Spent()
MOST_TOKENS = 1_000_000_000
"""Of one call: a server that tells more is not believed."""


class Meter:
    """Adds up what is asked for; threads may use it at once."""

    def __init__(self) -> None:
        self._lock, self._counts = threading.Lock(), Counter[str]()

    def add(self, more: Spent, *, instead_of: Spent = NOTHING) -> None:
        """Add what a call took, and take back what was added for it before."""
        with self._lock:
            self._counts.update(dict(more))
            self._counts.subtract(dict(instead_of))

    @property
    def spent(self) -> Spent:
        """All so far; a call that is not answered yet, or never, counts as the most that it may take."""
        with self._lock:
            return Spent.model_validate(self._counts)


METER: ContextVar[Meter | None] = ContextVar("meter", default=None)
"""The meter of the request that this thread or task works on."""


def note(spent: Spent, *, instead_of: Spent = NOTHING) -> None:
    """Add to the meter of the request, if there is one, as `Meter.add` does."""
    if (meter := METER.get()) is not None:
        meter.add(spent, instead_of=instead_of)


def most_of(path: str, fields: Mapping[str, Any]) -> Spent:
    """Return the most that one call may take, without the tokens that are sent."""
    images = int(fields.get("n", 1)) if path.startswith("images/") else 0
    return Spent(calls=1, images=images, output_tokens=int(fields.get("max_tokens", 0)))


def taken(answer: Any, most: Spent) -> Spent:
    """Return what an answered call took, as the server tells it; the most of what it does not tell."""
    usage = answer.usage if isinstance(answer.usage, dict) else {}
    sent, answered = (
        next((usage[name] for name in names if _is_count(usage.get(name))), None)
        for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
    )
    return Spent(
        calls=1,
        images=len(answer.data) if isinstance(answer, Drawings) else 0,
        input_tokens=sent or 0,
        output_tokens=most.output_tokens if answered is None else answered,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
