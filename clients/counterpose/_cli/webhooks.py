"""``counterpose webhooks``: addresses that are told about runs that end."""

from __future__ import annotations

import json
from typing import Annotated, get_args

import typer

from counterpose._cli.groups import examples, group
from counterpose._cli.options import AsJson, Url
from counterpose._cli.tables import Table
from counterpose._cli.terminal import connected, print_result, show
from counterpose._run_ids import is_beginning
from counterpose._sync.client import Client
from counterpose_core.commands import SHORT_ID
from counterpose_core.contract.webhooks import Webhook, WebhookEvent
from counterpose_core.errors import InvalidRequest, NotFound

OneWebhook = Annotated[
    str, typer.Argument(metavar="WEBHOOK", help="The webhook's id, or the beginning of it.")
]
Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="A public https address.")]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="EVENT", help="Tell it of this event alone; may be repeated."),
]

app = group("Let addresses be told about runs that end.")


@app.command(epilog=examples("counterpose webhooks create https://example.com/hook --event run.failed"))
def create(address: Address, event: Events = None, as_json: AsJson = False, url: Url = None) -> None:
    """Create a webhook and print its secret, which is not shown again."""
    with connected(url) as client:
        made = client.webhooks.create(address, events=None if not event else [*map(_event, event)])
        show(made, f"webhook {made.id}\nsecret {made.secret}", as_json)


@app.command("list", epilog=examples("counterpose webhooks list"))
def list_webhooks(as_json: AsJson = False, url: Url = None) -> None:
    """List the webhooks, oldest first."""
    with connected(url) as client:
        found = client.webhooks.list()
        rows = [(each.id[:SHORT_ID], each.url, ", ".join(each.events)) for each in found]
        show(found, str(Table(("webhook", "address", "events"), rows)), as_json)


@app.command("show", epilog=examples("counterpose webhooks show 3fa8"))
def show_webhook(webhook: OneWebhook, as_json: AsJson = False, url: Url = None) -> None:
    """Show a webhook with its newest messages, and why tries of them failed."""
    with connected(url) as client:
        found = client.webhooks.get(_id_of(webhook, client))
        show(found, webhook_text(found), as_json)


@app.command(epilog=examples("counterpose webhooks delete 3fa8"))
def delete(webhook: OneWebhook, as_json: AsJson = False, url: Url = None) -> None:
    """Delete a webhook; what it has not been told yet is not sent."""
    with connected(url) as client:
        webhook_id = _id_of(webhook, client)
        client.webhooks.delete(webhook_id)
        deleted = {"deleted": webhook_id}
        print_result(json.dumps(deleted) if as_json else f"deleted webhook {webhook_id}")


def webhook_text(webhook: Webhook) -> str:
    """Say where a webhook goes, and how its messages fared."""
    lines = [f"webhook {webhook.id}", f"{webhook.url}: {', '.join(webhook.events)}"]
    for each in webhook.deliveries:
        why = "" if each.failure is None else f", {each.failure}: {each.detail}"
        lines.append(f"{each.event} of run {each.run_id[:SHORT_ID]}: {each.state}, try {each.attempts}{why}")
    return "\n".join(lines)


def _event(given: str) -> WebhookEvent:
    known: tuple[WebhookEvent, ...] = get_args(WebhookEvent)
    for event in known:
        if event == given:
            return event
    raise InvalidRequest(f"--event is {given!r}; an event is one of {', '.join(known)}")


def _id_of(webhook: str, client: Client) -> str:
    """Return the id of a webhook that is named by its id or the beginning of it."""
    if not is_beginning(webhook):
        return webhook
    found = [each.id for each in client.webhooks.list() if each.id.startswith(webhook)]
    if not found:
        raise NotFound(f"no webhook {webhook!r}: `counterpose webhooks list` lists the webhooks")
    if len(found) > 1:
        raise InvalidRequest(f"{webhook!r} begins the ids of {len(found)} webhooks; give more digits")
    return found[0]
