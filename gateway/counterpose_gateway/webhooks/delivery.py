"""Delivers what is in the outbox: any number of gateways may, and each message is leased to one at a time.

The verdict of a gate that has ended, for the message that tells of a failed one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.gates import GateSummary
from counterpose_core.contract.webhooks import WebhookMessage
from counterpose_core.errors import CounterposeError, NotFound
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods.gate.method import GATE
from counterpose_gateway.records.deliveries import LeasedDelivery
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.summaries.summaries import Summary
from counterpose_gateway.webhooks.target import NotDeliveredError, Target

if TYPE_CHECKING:
    from counterpose_gateway.ledger.webhooks import Webhooks

IDLE_SECONDS = 1.0
LEASE_SECONDS = 60.0
"""Longer than a try takes: its look-up of the name, the connection and the exchange."""
AT_ONCE, OF_A_TENANT = 8, 6
"""Each takes a thread for 20 s at most: slow targets hold up others of their tenant, but for no longer."""
THREAD = "webhook message"
PAUSES = (5.0, 30.0, 120.0, 600.0, 1800.0, 7200.0, 18000.0, 36000.0)
"""Seconds before the second and each further try, 18 hours in all; a receiver may be down for a night."""

_RANDOM = random.Random()
_logger = logging.getLogger(__name__)


Judge = Callable[[str], GateSummary]
"""Sums up the gate of this id; raises NotFound."""


class Deliveries:
    """Delivers messages; ``jitter`` spreads the tries of messages that failed together.

    ``judge`` decides whether a gate that has ended failed, so that there is something to tell.
    """

    def __init__(
        self,
        webhooks: Webhooks,
        target: Target,
        judge: Judge,
        *,
        lease_seconds: float = LEASE_SECONDS,
        jitter: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._webhooks, self._target, self._judge = webhooks, target, judge
        self._lease_seconds, self._jitter = lease_seconds, jitter

    async def keep(self) -> None:
        """Deliver what is due until cancelled."""
        tries: list[tuple[threading.Thread, str]] = []
        while True:
            tries = [(thread, tenant) for thread, tenant in tries if thread.is_alive()]
            # One at a time: each may be the last that its tenant may have.
            while len(tries) < AT_ONCE and (leased := await self._next(tenant for _, tenant in tries)):
                # A daemon, not one of the loop's threads: a gateway that stops waits for no slow target.
                thread = threading.Thread(target=self.deliver, args=(leased,), name=THREAD, daemon=True)
                thread.start()
                tries.append((thread, leased.tenant))
            await asyncio.sleep(IDLE_SECONDS)

    def deliver(self, leased: LeasedDelivery) -> None:
        """Try to deliver a message once, and note how it went."""
        try:
            if (worded := self._worded(leased)) is None:
                self._told(lambda: self._webhooks.withdraw(leased))
                return
            self._target.post(worded)
        except NotDeliveredError as error:
            _logger.warning("webhook message %s, try %d: %s", leased.message, leased.attempts, error.detail)
            self._note(leased, error)
        # A defect met at one message must not end the delivery of all others.
        except Exception as error:
            _logger.exception("webhook message %s could not be sent", leased.message)
            self._note(leased, NotDeliveredError("unreachable", f"unexpected {type(error).__name__}"))
        else:
            self._told(lambda: self._webhooks.delivered(leased))

    def _worded(self, leased: LeasedDelivery) -> LeasedDelivery | None:
        """Return the message with its verdict, the same in each try; None if the gate has not failed."""
        if leased.event != "gate.failed":
            return leased
        try:
            summary = self._judge(leased.run_id)
        except NotFound:
            return None
        if summary.outcome != "failed":
            return None
        message = WebhookMessage.model_validate_json(leased.body)
        data = message.data.model_copy(update={"verdict": summary.verdict})
        return replace(leased, body=message.model_copy(update={"data": data}).model_dump_json())

    def _note(self, leased: LeasedDelivery, error: NotDeliveredError) -> None:
        last = leased.attempts > len(PAUSES)
        # Half to all of the pause.
        again_in = None if last else PAUSES[leased.attempts - 1] * (0.5 + self._jitter() / 2)
        self._told(lambda: self._webhooks.not_delivered(leased, error.failure, error.detail, again_in))

    def _told(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except CounterposeError as error:
            # Its lease runs out, and the message is sent again with the same id.
            _logger.warning("the ledger was not told of a webhook message: %s", error.detail)

    async def _next(self, tenants: Iterable[str]) -> LeasedDelivery | None:
        """Lease a message of a tenant that has not as many under way as it may."""
        full = [tenant for tenant, number in Counter(tenants).items() if number >= OF_A_TENANT]
        lease = partial(self._webhooks.lease, seconds=self._lease_seconds, most=1, without=full)
        try:
            return next(iter(await asyncio.to_thread(lease)), None)
        except CounterposeError as error:
            _logger.warning("no webhook message can be sent: %s", error.detail)
            return None


def gate_summary(ledger: Ledger, store: BlobStore, run_id: str) -> GateSummary:
    """Sum up a gate of any tenant.

    Raises:
        NotFound: it was deleted meanwhile.
    """
    return Summary(GATE, run_id, None)(RecordedRuns(ledger=ledger, store=store))
