"""The account of calls by which services ask servers of others: reserved before, settled after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import httpx
from pydantic import BaseModel, ValidationError

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE
from counterpose_core.contract.spending import SPENT_HEADER, Spent
from counterpose_core.served_calls import most_of_call
from counterpose_core.suite import Suite
from counterpose_gateway.services.calls import RUN


class Accounts(Protocol):
    """Keeps what runs ask servers of others for; `worker.spending.LedgerAccounts` does, in the ledger.

    call = await accounts.reserve(run, "editor", Spent(calls=1, images=1))
    await accounts.settle(run, call, Spent(calls=1, images=1))
    """

    async def reserve(self, run_id: str, service: str, most: Spent) -> str:
        """Take the most for spent, and return the id of the call; raises BudgetSpent without room."""

    async def settle(self, run_id: str, call: str, spent: Spent) -> None:
        """Put what the call did cost in its place."""


class Accounted:
    """Sends requests, and keeps the account of those that a run's work makes to a service of ``suite``."""

    def __init__(self, accounts: Accounts, suite: Suite) -> None:
        self._accounts, self._suite = accounts, suite

    def most_of(self, service: str, body: BaseModel) -> Spent | None:
        """Return the most that a call may cost; None where it costs nothing or belongs to no run."""
        return None if RUN.get() is None else most_of_call(self._suite, service, body)

    @asynccontextmanager
    async def call(self, service: str, most: Spent) -> AsyncIterator[list[httpx.Response]]:
        """Hold a reservation of a service, or of a classifier, during the block.

        The block appends the answer to the list, if one came.

        Without an answer, or where it does not tell, the most stays spent: nobody knows better.
        """
        run_id = RUN.get() or ""
        call, answers = await self._accounts.reserve(run_id, service, most), list[httpx.Response]()
        try:
            yield answers
        except (httpx.ConnectError, httpx.ConnectTimeout):
            # It never reached the service.
            await self._accounts.settle(run_id, call, Spent())
            raise
        if answers and (spent := _told(answers[0])) is not None:
            await self._accounts.settle(run_id, call, spent)


_AT_THE_DOOR = frozenset({401, 429})
_BEFORE_THE_DOOR = frozenset({404, 503})
"""By these, in plain text, Serve itself says that no application is there yet, or no replica of it."""


def _told(answer: httpx.Response) -> Spent | None:
    if SPENT_HEADER not in answer.headers:
        is_own = answer.headers.get("content-type", "").startswith(PROBLEM_MEDIA_TYPE)
        if answer.status_code in _AT_THE_DOOR or (answer.status_code in _BEFORE_THE_DOOR and not is_own):
            # The service never saw it.
            return Spent()
    try:
        return Spent.model_validate_json(answer.headers.get(SPENT_HEADER, ""))
    except ValidationError:
        return None
