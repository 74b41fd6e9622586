"""The account of calls by which services ask servers of others: reserved before, settled after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from pydantic import BaseModel, ValidationError

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE
from counterpose_core.contract.spending import SPENT_HEADER, Spent
from counterpose_core.served_calls import most_of_call
from counterpose_core.suite import Suite
from counterpose_gateway.services.calls import PLANNING, RUN, Accounts


class Accounted:
    """Sends requests, and keeps the account of those that a run's work makes to a service of ``suite``.

    ``accounts``: those of runs; None where this process only plans runs, whose accounts are `PLANNING`.
    """

    def __init__(self, accounts: Accounts | None, suite: Suite) -> None:
        self._accounts, self._suite = accounts, suite

    def most_of(self, service: str, body: BaseModel) -> Spent | None:
        """Return the most that a call may cost; None where it costs nothing or belongs to no run."""
        return None if self._account is None else most_of_call(self._suite, service, body)

    @property
    def _account(self) -> Accounts | None:
        """The account of what this task works on, if it works on a run."""
        return PLANNING.get() or (None if RUN.get() is None else self._accounts)

    @asynccontextmanager
    async def call(self, service: str, most: Spent) -> AsyncIterator[list[httpx.Response]]:
        """Hold a reservation of a service, or of a classifier, during the block.

        The block appends the answer to the list, if one came.

        Without an answer, or where it does not tell, the most stays spent: nobody knows better.
        """
        run_id, account = RUN.get() or "", self._account
        assert account is not None  # as `most_of` saw
        call, answers = await account.reserve(run_id, service, most), list[httpx.Response]()
        try:
            yield answers
        except (httpx.ConnectError, httpx.ConnectTimeout):
            # It never reached the service.
            await account.settle(run_id, call, Spent())
            raise
        if answers and (spent := _told(answers[0])) is not None:
            await account.settle(run_id, call, spent)


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
