"""What became of an item: each leased item has exactly one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.contract.runs import Provenance
from counterpose_core.errors import LeaseLost


@dataclass(frozen=True, kw_only=True)
class Done:
    """The item has its planned result."""

    result: Provenance


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """The item was dropped by the filter ``reason``; ``result`` is its best variant if any."""

    reason: str
    detail: str = ""
    result: Provenance | None = None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The item met the error ``code``; a retryable one is tried up to three times."""

    code: str
    detail: str
    retryable: bool = False


Outcome = Done | Filtered | Failed


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A leased item's outcome, under the ``fence`` of its lease."""

    item_id: str
    fence: int
    outcome: Outcome


def run_of(ended: Ended) -> str:
    """Return the id of the run that an item belongs to."""
    return ended.item_id.rpartition(".")[0]


def lease_lost(lost: Sequence[Ended]) -> LeaseLost:
    """Return the error that names outcomes whose leases are lost."""
    named = ", ".join(f"{each.fence} of item {each.item_id!r}" for each in lost)
    return LeaseLost(f"lease {named} has expired or passed to another worker; drop its result")
