"""Looks at the first results of a run, by which its method may stop it before it costs an hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from counterpose_core.errors import CounterposeError
from counterpose_gateway.runs.context import RunLedger
from counterpose_gateway.runs.items import LeasedGroup


@dataclass(frozen=True)
class Look:
    """What a look found: whether it is decided, and the problem if the run is to stop."""

    decided: bool
    problem: CounterposeError | None = None


UNDECIDED = Look(decided=False)
"""Too little is recorded yet."""


@runtime_checkable
class LookingMethod(Protocol):
    """A method that looks at the first results of its runs.

    def look(self, group: LeasedGroup, ledger: RunLedger) -> Look:
        return Look(decided=True)
    """

    def look(self, group: LeasedGroup, ledger: RunLedger) -> Look:
        """Look at a run after one of its groups was worked on; asked until it is decided."""
        ...
