"""What processes report to the ledger for whoever watches, and what it answers them for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import BaseModel

from counterpose_core.types import Cost


class WorkerReading(BaseModel):
    """One worker's reading."""

    worker: str
    """Host and process of the worker."""
    groups: int = 0
    """Item groups that it would process at once."""
    busy: int = 0
    """Item groups that it processes."""
    calls: dict[str, int] = {}
    """Calls under way, by service."""
    occupancy: float | None = None
    """The editor's occupancy as it said last, or null if it did not say."""


LEASE_LOST = "lease-lost"
"""A lease ran out before its worker came back; the item is leased again, or fails with it."""


class Attempt(NamedTuple):
    """What an attempt at an item came to: ``done``, ``filtered``, ``failed``, ``retried`` or `LEASE_LOST`."""

    kind: str
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What the ledger knows at one moment.

    ``oldest_seconds``: the age of the oldest run that has open items, 0 if none has. ``pending_messages``:
    messages of webhooks that nobody has taken yet. ``attempts``: how many attempts at items came to what.
    ``counts``: what the processes counted, by series.
    """

    active_runs: int = 0
    cost: Cost = field(default_factory=Cost)
    open_items: int = 0
    oldest_seconds: float = 0.0
    pending_messages: int = 0
    attempts: Mapping[Attempt, int]
    counts: Mapping[str, float]
    workers: Sequence[WorkerReading] = ()
