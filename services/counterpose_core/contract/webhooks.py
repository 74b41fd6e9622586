"""Bodies of ``/v1/webhooks``, and of what is sent to them, after Standard Webhooks (standardwebhooks.com)."""

from __future__ import annotations

import datetime as dt
from typing import Literal, get_args

from pydantic import Field

from counterpose_core.contract.base import ClientBody, Distinct, ListBody, Problem, ResponseBody
from counterpose_core.contract.runs import RequestCounts
from counterpose_core.types import RunState

WebhookEvent = Literal["run.completed", "run.failed", "gate.failed"]
"""What a webhook is told: a run has ended, with at least one item done or filtered, or it has failed; or a
gate has ended and proves a regression.
"""
DeliveryState = Literal["pending", "delivered", "failed"]
DeliveryFailure = Literal["refused", "unreachable", "timed-out", "redirected", "rejected"]
"""Why a try did not deliver: the address is private or not https, nobody answers, nobody answers in time,
the target redirects, or it answers another status than 2xx.
"""

ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "webhook-id", "webhook-timestamp", "webhook-signature"
MOST_WEBHOOKS = 100
ADDRESS_CHARACTERS = 2000


class WebhookCreate(ClientBody):
    """``POST /v1/webhooks``: an address to tell about runs that end."""

    url: str = Field(min_length=1, max_length=ADDRESS_CHARACTERS)
    """Address that is posted to: https, without user, password or fragment."""
    events: Distinct[list[WebhookEvent]] = Field(default=list(get_args(WebhookEvent)), min_length=1)
    """Events that it is told of; all by default."""


class WebhookDelivery(ResponseBody):
    """One message to a webhook, and how its tries went."""

    id: str
    """Id of the message, the same in each try: the header `webhook-id`."""
    event: WebhookEvent
    """What it tells."""
    run_id: str
    """The run that it tells of."""
    state: DeliveryState
    """`failed`: no further try is made."""
    attempts: int
    """Tries so far."""
    created_at: dt.datetime
    """When the run ended, in UTC."""
    delivered_at: dt.datetime | None = None
    """When the target took it, in UTC, or null if it has not."""
    failure: DeliveryFailure | None = None
    """Why the last try failed, or null if none failed last."""
    detail: str | None = None
    """The same in words, or null."""


class Webhook(ResponseBody):
    """An address that is told about runs that end."""

    id: str
    """Id of the webhook."""
    url: str
    """Address that is posted to."""
    events: list[WebhookEvent]
    """Events that it is told of."""
    created_at: dt.datetime
    """When it was made, in UTC."""
    deliveries: list[WebhookDelivery] = []
    """Its newest messages, newest first; lists of webhooks leave them out."""


class WebhookCreated(Webhook):
    """A new webhook with its secret, which is shown this once."""

    secret: str
    """Secret that messages are signed with, `whsec_` and base64; it is not shown again."""


class WebhookList(ListBody[Webhook]):
    """``GET /v1/webhooks``: all webhooks, oldest first."""

    webhooks: list[Webhook]
    """The webhooks, without their secrets."""

    @property
    def _entries(self) -> list[Webhook]:
        return self.webhooks


class EndedRun(ResponseBody):
    """The run that a message tells of; the API has the rest."""

    id: str
    """Id of the run."""
    kind: str
    """Kind of the run."""
    state: RunState
    """How it ended."""
    name: str | None
    """Its name, or null."""
    dataset: str
    """Dataset that it is about."""
    created_at: dt.datetime
    """When it was made, in UTC."""
    ended_at: dt.datetime
    """When it ended, in UTC."""
    request_counts: RequestCounts
    """Its items by state."""
    problem: Problem | None
    """Why it failed, or null."""
    verdict: str | None = None
    """What a gate that failed says, in one sentence; null for other events."""


class WebhookMessage(ResponseBody):
    """The body of a message."""

    type: WebhookEvent
    """What happened."""
    timestamp: dt.datetime
    """When it happened, in UTC."""
    data: EndedRun
    """The run."""
