"""The accounts of runs in the ledger, as a worker's calls keep them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from counterpose_core.contract.spending import Spent
from counterpose_core.errors import BudgetSpent
from counterpose_gateway.worker.shared_ledger import retry_ledger

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


class LedgerAccounts:
    """Reserves and settles in the ledger, and waits for it while it is busy."""

    def __init__(self, ledger: Ledger) -> None:
        self._spending = ledger.spending

    async def reserve(self, run_id: str, service: str, most: Spent) -> str:
        """Take the most for spent, and return the id of the call; raises BudgetSpent without room."""

        def take() -> tuple[str, BudgetSpent | None]:
            # A new id each time: whether the last transaction was durable is not known.
            call = secrets.token_hex(16)
            return call, self._spending.reserve(run_id, call, service, most)

        call, refusal = await retry_ledger(take)
        if refusal is not None:
            raise refusal
        return call

    async def settle(self, run_id: str, call: str, spent: Spent) -> None:
        """Put what the call did cost in its place."""
        await retry_ledger(self._spending.settle, run_id, call, spent)
