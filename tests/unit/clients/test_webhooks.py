"""Webhooks from a program and from the shell: created, listed, shown, deleted."""

from __future__ import annotations

import json

import httpx

from fakes.command import Play, run
from fakes.sdk import Session, ok

HOOK = {
    "id": "3fa8" + "0" * 28, "url": "https://example.com/hook", "events": ["run.failed"],
    "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
MADE = HOOK | {"secret": "whsec_c2VjcmV0"}
DELIVERY = {
    "id": "msg_1", "event": "run.failed", "run_id": "a" * 32, "state": "pending", "attempts": 2,
    "created_at": "2026-01-01T00:00:00Z", "failure": "redirected", "detail": "the target redirects",
}  # fmt: skip
TOLD = HOOK | {"deliveries": [DELIVERY]}


def test_each_verb_sends_its_request(kind: str) -> None:
    session = Session(kind, ok(MADE), ok(MADE), ok({"webhooks": [HOOK]}), ok(TOLD), httpx.Response(204))
    made = session(lambda client: client.webhooks.create(HOOK["url"], events=["run.failed"]))
    session(lambda client: client.webhooks.create(HOOK["url"]))
    listed = session(lambda client: client.webhooks.list())
    shown = session(lambda client: client.webhooks.get("h/1"))
    session(lambda client: client.webhooks.delete("h1"))
    assert made.secret == "whsec_c2VjcmV0"
    assert [each.id for each in listed] == [HOOK["id"]]
    assert shown.deliveries[0].failure == "redirected"
    sent = [(each.method, each.url.raw_path.decode()) for each in session.seen]
    assert sent == [
        ("POST", "/v1/webhooks"), ("POST", "/v1/webhooks"), ("GET", "/v1/webhooks"),
        ("GET", "/v1/webhooks/h%2F1"), ("DELETE", "/v1/webhooks/h1"),
    ]  # fmt: skip
    assert json.loads(session.seen[0].content) == {"url": HOOK["url"], "events": ["run.failed"]}
    assert json.loads(session.seen[1].content) == {"url": HOOK["url"]}


def test_creating_prints_the_secret_and_refuses_an_unknown_event(play: Play) -> None:
    play(ok(MADE))
    done = run("webhooks", "create", "https://example.com/hook", "--event", "run.failed")
    assert (done.exit_code, done.stdout) == (0, f"webhook {HOOK['id']}\nsecret whsec_c2VjcmV0\n")
    play()
    refused = run("webhooks", "create", "https://example.com/hook", "--event", "run.ended")
    assert refused.exit_code == 2
    assert "'run.ended'; an event is one of run.completed, run.failed, gate.failed" in refused.stderr


def test_webhooks_are_listed_shown_and_deleted_by_the_beginning_of_their_id(play: Play) -> None:
    play(ok({"webhooks": [HOOK]}))
    assert "https://example.com/hook\trun.failed" in run("webhooks", "list").stdout
    play(ok({"webhooks": [HOOK]}), ok(TOLD))
    shown = run("webhooks", "show", "3fa8").stdout
    assert "run.failed of run aaaaaaaa: pending, try 2, redirected: the target redirects" in shown
    play(ok({"webhooks": [HOOK]}), httpx.Response(204))
    assert run("webhooks", "delete", "3fa8").stdout == f"deleted webhook {HOOK['id']}\n"
    play(ok({"webhooks": []}))
    assert run("webhooks", "show", "3fa8").exit_code == 2
