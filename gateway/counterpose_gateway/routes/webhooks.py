"""``/v1/webhooks``: addresses that are told about runs that end."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from counterpose_core.contract.webhooks import Webhook, WebhookCreate, WebhookCreated, WebhookList
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.routes.context import Context
from counterpose_gateway.webhooks.target import require_target

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=StrictRoute)

WebhookId = Annotated[str, Path(description="Id of the webhook.")]


@router.post("", status_code=201)
def create_webhook(body: WebhookCreate, context: Context, response: Response) -> WebhookCreated:
    """Create a webhook; the answer has its secret, which is not shown again."""
    require_target(body.url, private=context.settings.private_webhooks)
    made = context.ledger.webhooks.create(body)
    response.headers["location"] = f"{router.prefix}/{made.id}"
    return made


@router.get("")
def list_webhooks(context: Context) -> WebhookList:
    """List the webhooks, oldest first."""
    return context.ledger.webhooks.all()


@router.get("/{webhook_id:segment}")
def get_webhook(webhook_id: WebhookId, context: Context) -> Webhook:
    """Return a webhook with its newest messages, and why their tries failed."""
    return context.ledger.webhooks.get(webhook_id)


@router.delete("/{webhook_id:segment}", status_code=204)
def delete_webhook(webhook_id: WebhookId, context: Context) -> None:
    """Delete a webhook; messages that wait for it are not sent."""
    context.ledger.webhooks.delete(webhook_id)
