"""A message to a webhook, as the ledger leases it to the gateway that delivers it."""

from __future__ import annotations

from dataclasses import dataclass, field

from counterpose_core.contract.webhooks import WebhookEvent


@dataclass(frozen=True, kw_only=True)
class LeasedDelivery:
    """One try: ``attempts`` counts it, and ``fence`` is what every write about it names."""

    id: int
    message: str
    event: WebhookEvent
    run_id: str
    body: str
    attempts: int
    fence: int
    url: str
    tenant: str
    # Not shown: whoever has it can sign messages.
    secret: str = field(repr=False)
