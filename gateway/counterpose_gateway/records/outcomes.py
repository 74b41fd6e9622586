"""What became of an item: each leased item has exactly one outcome."""

from __future__ import annotations

from dataclasses import dataclass

from counterpose_core.contract.runs import Provenance


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
