"""``client.webhooks``: addresses that are told about runs that end."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose._calls import Call, reading, segment
from counterpose._transport_protocol import AsyncSender, Sender
from counterpose_core.contract.webhooks import (
    Webhook,
    WebhookCreate,
    WebhookCreated,
    WebhookEvent,
    WebhookList,
)

PATH = "/v1/webhooks"


def create_call(url: str, events: Sequence[WebhookEvent] | None) -> Call[WebhookCreated]:
    """``POST /v1/webhooks``; a second one would be another webhook."""
    body = WebhookCreate(url=url) if events is None else WebhookCreate(url=url, events=list(events))
    return Call(method="POST", path=PATH, body=body, parse=reading(WebhookCreated), safe=False)


def list_call() -> Call[WebhookList]:
    """``GET /v1/webhooks``."""
    return Call(method="GET", path=PATH, parse=reading(WebhookList))


def get_call(webhook_id: str) -> Call[Webhook]:
    """``GET /v1/webhooks/{webhook_id}``."""
    return Call(method="GET", path=f"{PATH}/{segment(webhook_id)}", parse=reading(Webhook))


def delete_call(webhook_id: str) -> Call[None]:
    """``DELETE /v1/webhooks/{webhook_id}``."""
    return Call(method="DELETE", path=f"{PATH}/{segment(webhook_id)}", parse=lambda _: None, safe=False)


class Webhooks:
    """``/v1/webhooks``, with blocking calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, url: str, *, events: Sequence[WebhookEvent] | None = None) -> WebhookCreated:
        """Let an address be told about runs that end; the answer has the secret, which is not shown again.

        made = client.webhooks.create("https://example.com/hook", events=["run.failed"])

        Args:
            url: a public https address.
            events: ``run.completed``, ``run.failed``, ``gate.failed``; default: all.

        Raises:
            InvalidRequest: the gateway sends nothing to such an address.
            QuotaExceeded: there are too many webhooks.
        """
        return self._sender.send(create_call(url, events))

    def list(self) -> WebhookList:
        """Return all webhooks, oldest first."""
        return self._sender.send(list_call())

    def get(self, webhook_id: str) -> Webhook:
        """Return a webhook with its newest messages; raises `NotFound`."""
        return self._sender.send(get_call(webhook_id))

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook; raises `NotFound`."""
        self._sender.send(delete_call(webhook_id))


class AsyncWebhooks:
    """``/v1/webhooks``, with awaitable calls; as `Webhooks`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(self, url: str, *, events: Sequence[WebhookEvent] | None = None) -> WebhookCreated:
        """Let an address be told about runs that end; as `Webhooks.create`."""
        return await self._sender.send(create_call(url, events))

    async def list(self) -> WebhookList:
        """Return all webhooks, oldest first."""
        return await self._sender.send(list_call())

    async def get(self, webhook_id: str) -> Webhook:
        """Return a webhook with its newest messages; raises `NotFound`."""
        return await self._sender.send(get_call(webhook_id))

    async def delete(self, webhook_id: str) -> None:
        """Delete a webhook; raises `NotFound`."""
        await self._sender.send(delete_call(webhook_id))
