"""The renewal of a lease while the work under it runs: of an item group, or of the planning of a stage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from counterpose_core.errors import CounterposeError, LeaseLost

Leased = TypeVar("Leased")

RENEW_AT_MOST_SECONDS = 5.0
"""A cancelled run voids its leases, so a worker also notices a cancel after so many seconds."""

_logger = logging.getLogger(__name__)


def renewed_every(seconds: float) -> float:
    """Return after how many seconds a lease of ``seconds`` is renewed."""
    # A third: two renewals may fail before the lease is lost.
    return min(seconds / 3, RENEW_AT_MOST_SECONDS)


async def keep_leased(
    renew: Callable[[Leased, float], Awaitable[object]], leased: Leased, seconds: float
) -> None:
    """Prolong the lease again and again, until it is void or the task is cancelled.

    Args:
        renew: the ledger's operation; raises LeaseLost if the lease is void.
        leased: what is leased.
        seconds: how long the lease lasts after each renewal.
    """
    while True:
        await asyncio.sleep(renewed_every(seconds))
        try:
            await renew(leased, seconds)
        # Recorded, cancelled or taken over: in each case there is no lease left to hold.
        except LeaseLost:
            return
        except CounterposeError as error:
            _logger.warning("the lease is not renewed yet: %s", error.detail)
