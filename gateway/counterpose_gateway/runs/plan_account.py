"""The account of what planning asks servers of others for, kept in memory until its run is made."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from counterpose_core.contract.spending import SpendingLimits, Spent
from counterpose_core.suite import Suite
from counterpose_gateway.records.spending import Allotment, CallsOfAccount
from counterpose_gateway.services.calls import PLANNING

_MARK = "plan"
"""No lease has it: nobody waits for the room of a call that planning left open."""


class PlanAccount:
    """Reserves within the budget of a run that does not exist yet; ``pointer``: where its request has it."""

    def __init__(self, limits: Allotment | None, pointer: str | None = "/spending") -> None:
        self._limits, self._pointer = limits or Allotment(), pointer
        self.calls: CallsOfAccount = {}

    @classmethod
    def of(cls, limits: SpendingLimits | None, suite: Suite) -> Self:
        """Return that of a question: nobody is asked for more than the run that it is about might be."""
        return cls(None if limits is None else Allotment.of(limits, suite))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the account of all calls in the block, of tasks and threads that it starts as well."""
        token = PLANNING.set(self)
        try:
            yield
        finally:
            PLANNING.reset(token)

    def require(self, service: str, most: Spent) -> None:
        """Refuse a call for which the budget has no room; raises `BudgetSpent`."""
        spent = defaultdict[str, Spent](Spent)
        for name, part in self.calls.values():
            spent[name] += part
        if (refusal := self._limits.refusal_of_plan(spent, service, most, self._pointer)) is not None:
            raise refusal

    async def reserve(self, run_id: str, service: str, most: Spent) -> str:
        """Take the most for spent, and return the id of the call; raises BudgetSpent without room."""
        self.require(service, most)
        call = f"{_MARK}-{secrets.token_hex(10)}"
        self.calls[call] = service, most
        return call

    async def settle(self, run_id: str, call: str, spent: Spent) -> None:
        """Put what the call did cost in its place."""
        service, _ = self.calls.pop(call)
        if spent != Spent():
            _, before = self.calls.get(service, (service, Spent()))
            self.calls[service] = service, before + spent
