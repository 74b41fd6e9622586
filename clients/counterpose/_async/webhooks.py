"""``client.webhooks``: addresses that are told about runs that end."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose._calls import Call, reading, reading_nothing, segment
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.webhooks import (
    Webhook,
    WebhookCreate,
    WebhookCreated,
    WebhookEvent,
    WebhookList,
)

PATH = "/v1/webhooks"


class AsyncWebhooks:
    """``/v1/webhooks``, with awaitable calls."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(self, url: str, *, events: Sequence[WebhookEvent] | None = None) -> WebhookCreated:
        """Let an address be told about runs that end; the answer has the secret, which is not shown again.

        made = await client.webhooks.create("https://example.com/hook", events=["run.failed"])

        Args:
            url: a public https address.
            events: ``run.completed``, ``run.failed``, ``gate.failed``; default: all.

        Raises:
            InvalidRequest: the gateway sends nothing to such an address.
            QuotaExceeded: there are too many webhooks.
        """
        body = checked(WebhookCreate, {"url": url} | ({} if events is None else {"events": list(events)}))
        # A second one would be another webhook.
        return await self._sender.send(Call("POST", PATH, reading(WebhookCreated), body=body, safe=False))

    async def list(self) -> WebhookList:
        """Return all webhooks, oldest first."""
        return await self._sender.send(Call("GET", PATH, reading(WebhookList)))

    async def get(self, webhook_id: str) -> Webhook:
        """Return a webhook with its newest messages; raises `NotFound`."""
        path = f"{PATH}/{segment(webhook_id)}"
        return await self._sender.send(Call("GET", path, reading(Webhook)))

    async def delete(self, webhook_id: str) -> None:
        """Delete a webhook; raises `NotFound`."""
        path = f"{PATH}/{segment(webhook_id)}"
        await self._sender.send(Call("DELETE", path, reading_nothing, safe=False))
