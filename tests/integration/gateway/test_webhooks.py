"""Webhooks: a message for each run that ends, exactly if it ends, and at least once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as StandardWebhook

from counterpose_core.contract.webhooks import (
    WebhookCreate,
    WebhookCreated,
    WebhookDelivery,
    WebhookEvent,
    WebhookMessage,
)
from counterpose_core.errors import DatasetEmpty, NotFound, QuotaExceeded
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.outcomes import Failed
from counterpose_gateway.webhooks.delivery import AT_ONCE, OF_A_TENANT, PAUSES, THREAD, Deliveries
from counterpose_gateway.webhooks.target import Target
from fakes import mortal_delivery
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock, create_run, done, finish_all, lease, new_ledger
from fakes.mortal_delivery import no_gate
from fakes.processes import poll_until
from fakes.webhook_receiver import WebhookReceiver, silence, status, webhook_receiver

ADDRESS = "https://hooks.example.com/a"


def hook(ledger: Ledger, *events: WebhookEvent, url: str = ADDRESS) -> WebhookCreated:
    """A webhook of these events, or of all."""
    return ledger.webhooks.create(WebhookCreate(url=url, **({"events": list(events)} if events else {})))


def fail_all(ledger: Ledger) -> None:
    """Lease and fail every available item for good."""
    while (group := ledger.items.lease("worker", seconds=30.0)) is not None:
        for item in group.items:
            ledger.items.finish(item.id, item.fence, Failed(code="image-undecodable", detail="broken"))


def told(ledger: Ledger, webhook: WebhookCreated) -> list[WebhookDelivery]:
    """The messages of a webhook, oldest first."""
    return ledger.webhooks.get(webhook.id).deliveries[::-1]


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    """A receiver that takes every message."""
    with webhook_receiver(status(200)) as opened:
        yield opened


def test_a_run_that_ends_is_told_to_each_webhook_that_wants_it(ledger: Ledger) -> None:
    both, failures = hook(ledger), hook(ledger, "run.failed")
    completed = create_run(ledger, sources=1, per_source=2)
    finish_all(ledger)
    failed = create_run(ledger, sources=1, per_source=1)
    fail_all(ledger)
    ledger.runs.cancel(create_run(ledger))
    assert [(each.event, each.run_id) for each in told(ledger, both)] == [
        ("run.completed", completed), ("run.failed", failed),
    ]  # fmt: skip
    assert [each.run_id for each in told(ledger, failures)] == [failed]
    (first, *_) = ledger.webhooks.lease(seconds=30, most=8)
    message = WebhookMessage.model_validate_json(first.body)
    assert (message.type, message.data.id, message.data.state) == ("run.completed", completed, "completed")
    assert message.data.request_counts.done == 2
    assert message.timestamp == message.data.ended_at == ledger.runs.get(completed).ended_at


def test_a_failed_run_tells_its_problem_and_one_that_is_resumed_is_told_of_again(ledger: Ledger) -> None:
    webhook = hook(ledger)
    run_id = create_run(ledger, sources=1, per_source=1)
    fail_all(ledger)
    (leased,) = ledger.webhooks.lease(seconds=30, most=8)
    problem = json.loads(leased.body)["data"]["problem"]
    assert problem["code"] == "image-undecodable"
    ledger.runs.resume(run_id)
    finish_all(ledger)
    assert [each.event for each in told(ledger, webhook)] == ["run.failed", "run.completed"]


def test_the_message_and_the_end_of_the_run_are_one_transaction(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = hook(ledger)
    run_id = create_run(ledger, sources=1, per_source=1)
    (item,) = lease(ledger).items

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        # After the message was written, before the commit.
        patched.setattr("counterpose_gateway.ledger.tables.totals.add", killed)
        with pytest.raises(KeyboardInterrupt):
            ledger.items.finish(item.id, item.fence, done())
    assert told(ledger, webhook) == []
    assert ledger.runs.get(run_id).ended_at is None
    ledger.items.finish(item.id, item.fence, done())
    assert [each.run_id for each in told(ledger, webhook)] == [run_id]


@pytest.mark.fault("F28")
def test_a_receiver_that_is_down_for_ten_minutes_gets_one_message_by_one_id(
    ledger: Ledger, clock: Clock
) -> None:
    with webhook_receiver(status(500)) as receiver:
        webhook = hook(ledger, url=receiver.url)
        run_id = create_run(ledger, sources=1, per_source=1)
        finish_all(ledger)
        ended = ledger.runs.get(run_id)
        deliveries = Deliveries(ledger.webhooks, Target(private=True), no_gate, jitter=lambda: 1.0)
        up_at = clock.now + 600
        assert ledger.measurements.read().pending_messages == 1
        while told(ledger, webhook)[0].state == "pending":
            if clock.now >= up_at:
                receiver.answers[:] = [status(200)]
            for leased in ledger.webhooks.lease(seconds=30, most=8):
                deliveries.deliver(leased)
            clock.now += 5
    (delivery,) = told(ledger, webhook)
    assert (delivery.state, delivery.failure) == ("delivered", None)
    assert ledger.measurements.read().pending_messages == 0
    assert delivery.attempts == len(receiver.received) == 5
    assert {got.headers["webhook-id"] for got in receiver.received} == {delivery.id}
    assert ledger.runs.get(run_id) == ended


def test_a_message_that_nobody_ever_takes_fails_after_18_hours_and_says_why(
    ledger: Ledger, clock: Clock
) -> None:
    with webhook_receiver(status(503)) as receiver:
        webhook = hook(ledger, url=receiver.url)
        create_run(ledger, sources=1, per_source=1)
        finish_all(ledger)
        deliveries = Deliveries(ledger.webhooks, Target(private=True), no_gate)
        for pause in (0.0, *PAUSES):
            clock.now += pause
            (leased,) = ledger.webhooks.lease(seconds=30, most=8)
            deliveries.deliver(leased)
        clock.now += 10 * PAUSES[-1]
        assert list(ledger.webhooks.lease(seconds=30, most=8)) == []
    (delivery,) = told(ledger, webhook)
    assert (delivery.state, delivery.failure, delivery.detail) == (
        "failed", "rejected", "the target answered 503",
    )  # fmt: skip
    assert delivery.attempts == len(receiver.received) == 1 + len(PAUSES)


def test_a_gateway_that_was_too_slow_writes_nothing(ledger: Ledger, clock: Clock) -> None:
    webhook = hook(ledger)
    create_run(ledger, sources=1, per_source=1)
    finish_all(ledger)
    (slow,) = ledger.webhooks.lease(seconds=30, most=8)
    assert list(ledger.webhooks.lease(seconds=30, most=8)) == []
    clock.now += 31
    (second,) = ledger.webhooks.lease(seconds=30, most=8)
    ledger.webhooks.not_delivered(slow, "timed-out", "slow", None)
    assert told(ledger, webhook)[0].state == "pending"
    ledger.webhooks.delivered(second)
    assert (told(ledger, webhook)[0].state, slow.message) == ("delivered", second.message)


def test_what_waits_goes_with_its_webhook_and_with_its_run(ledger: Ledger) -> None:
    first, second = hook(ledger), hook(ledger)
    run_id = create_run(ledger, sources=1, per_source=1)
    finish_all(ledger)
    ledger.webhooks.delete(first.id)
    assert [each.url for each in ledger.webhooks.all()] == [second.url]
    with pytest.raises(NotFound, match="list the webhooks"):
        ledger.webhooks.delete(first.id)
    assert len(told(ledger, second)) == 1
    ledger.runs.delete(run_id)
    assert told(ledger, second) == []


def test_more_webhooks_than_there_may_be_are_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterpose_gateway.ledger.webhooks.MOST_WEBHOOKS", 1)
    hook(ledger)
    with pytest.raises(QuotaExceeded, match="delete one first"):
        hook(ledger)


@pytest.mark.fault("F28")
def test_a_delivery_that_is_killed_is_made_again_under_the_same_id(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with webhook_receiver(silence, status(200)) as receiver:
        webhook = hook(ledger, url=receiver.url)
        create_run(ledger, sources=1, per_source=1)
        finish_all(ledger)
        command = [sys.executable, str(Path(mortal_delivery.__file__)), url, "1.0"]
        variables = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        killed = subprocess.Popen(command, env=variables)
        assert receiver.arrived.wait(100)
        killed.kill()
        killed.wait()
        assert told(ledger, webhook)[0].state == "pending"
        following = threading.Event()

        async def deliver() -> None:
            keeping = asyncio.create_task(Deliveries(ledger.webhooks, Target(private=True), no_gate).keep())
            while not following.is_set():
                await asyncio.sleep(0.05)
                if told(ledger, webhook)[0].state == "delivered":
                    following.set()
            keeping.cancel()

        asyncio.run(asyncio.wait_for(deliver(), 100))
    ledger.close()
    ids = [got.headers["webhook-id"] for got in receiver.received]
    assert len(ids) == 2
    assert len(set(ids)) == 1


async def test_the_secret_is_shown_once_and_signs_what_is_sent(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    async with fake_gateway(tmp_path, private_webhooks=True) as opened:
        answer = await opened.http.post("/v1/webhooks", json={"url": receiver.url})
        assert answer.status_code == 201
        made = answer.json()
        listed = (await opened.http.get("/v1/webhooks")).text
        shown = (await opened.http.get(answer.headers["location"])).text
        assert made["secret"] not in listed + shown
        await opened.upload("demo", 1)
        request = {"dataset": "demo", "classifiers": ["steady"], "seed": 1}
        run = (await opened.http.post("/v1/stress-tests", json=request)).json()
        await opened.worker().work_off()
        (leased,) = opened.ledger.webhooks.lease(seconds=30, most=8)
        await asyncio.to_thread(
            Deliveries(opened.ledger.webhooks, Target(private=True), no_gate).deliver, leased
        )
        (delivery,) = (await opened.http.get(f"/v1/webhooks/{made['id']}")).json()["deliveries"]
        gone = await opened.http.delete(f"/v1/webhooks/{made['id']}")
        absent = await opened.http.get(f"/v1/webhooks/{made['id']}")
    (got,) = receiver.received
    message = StandardWebhook(made["secret"]).verify(got.body, dict(got.headers))
    assert message["type"] == "run.completed"
    assert message["data"]["id"] == delivery["run_id"] == run["id"]
    assert (delivery["state"], gone.status_code, absent.status_code) == ("delivered", 204, 404)


@pytest.mark.fault("B57")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("url", ["http://example.com/", "https://192.168.0.1/", "https://localhost/"])
async def test_a_private_or_plain_address_is_refused_with_its_place(gateway: FakeGateway, url: str) -> None:
    answer = await gateway.http.post("/v1/webhooks", json={"url": url})
    listed = (await gateway.http.get("/v1/webhooks")).json()["webhooks"]
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/url"
    assert listed == []


def test_a_run_that_is_stopped_and_one_without_items_are_told_of_too(ledger: Ledger) -> None:
    webhook = hook(ledger)
    stopped = create_run(ledger)
    ledger.runs.stop(stopped, DatasetEmpty("no image shows it"))
    empty = create_run(ledger, sources=0)
    assert [(each.event, each.run_id) for each in told(ledger, webhook)] == [
        ("run.failed", stopped), ("run.completed", empty),
    ]  # fmt: skip
    first, second = (json.loads(each.body)["data"] for each in ledger.webhooks.lease(seconds=30, most=8))
    assert first["problem"]["code"] == "dataset-empty"
    assert second["request_counts"]["total"] == 0


def test_a_gateway_that_stops_does_not_wait_for_a_silent_target(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    with webhook_receiver(silence) as receiver:
        hook(ledger, url=receiver.url)
        create_run(ledger, sources=1, per_source=1)
        finish_all(ledger)

        async def deliver() -> None:
            target = Target(private=True, seconds=250.0)
            keeping = asyncio.create_task(Deliveries(ledger.webhooks, target, no_gate).keep())
            assert await asyncio.to_thread(receiver.arrived.wait, 100)
            keeping.cancel()

        began = time.monotonic()
        asyncio.run(deliver())
        assert receiver.received
        assert time.monotonic() - began < 200
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join(100)
    ledger.close()


@pytest.mark.fault("T21")
def test_a_tenant_of_silent_targets_leaves_threads_to_others(tmp_path: Path) -> None:
    ours = new_ledger(tmp_path)
    theirs = ours.of("acme")
    with webhook_receiver(silence) as silent, webhook_receiver(status(200)) as receiver:
        slow = hook(theirs, url=silent.url)
        for _ in range(AT_ONCE + 2):
            create_run(theirs, sources=0)
        webhook = hook(ours, url=receiver.url)
        create_run(ours, sources=0)

        async def deliver() -> None:
            target = Target(private=True, seconds=250.0)
            keeping = asyncio.create_task(Deliveries(ours.webhooks, target, no_gate).keep())
            await poll_until(lambda: told(ours, webhook)[0].state == "delivered")
            keeping.cancel()

        asyncio.run(deliver())
        attempts = [each.attempts for each in told(theirs, slow)]
    ours.close()
    assert sum(attempts) == OF_A_TENANT
