"""Datasets that end: what both clients and the commands send."""

from __future__ import annotations

import json

import httpx
import pytest

from fakes.command import Play, run
from fakes.sdk import Session, ok

DATASET = {
    "name": "mine", "classes": ["bus"], "n_sources": 1, "digest": "d", "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
ENDING = DATASET | {"expires_at": "2026-01-02T00:00:00Z"}
PATH = "/v1/datasets/mine"


def test_a_dataset_is_made_with_an_end_gets_another_and_is_deleted(kind: str) -> None:
    session = Session(kind, ok(ENDING), ok(DATASET), ok(ENDING), httpx.Response(204))
    made = session(lambda client: client.datasets.create(name="mine", expires_in=86_400))
    assert made.expires_at is not None
    assert session(lambda client: client.datasets.expire("mine", None)).expires_at is None
    session(lambda client: client.datasets.expire("mine", 3600.4))
    session(lambda client: client.datasets.delete("mine"))
    sent = [(each.method, each.url.path, each.content and json.loads(each.content)) for each in session.seen]
    assert sent == [
        ("POST", "/v1/datasets", {"name": "mine", "classes": None, "expires_in": 86_400}),
        ("PATCH", PATH, {"expires_in": None}),
        ("PATCH", PATH, {"expires_in": 3600}),
        ("DELETE", PATH, b""),
    ]


@pytest.mark.parametrize(("days", "seconds"), [("0.5", 43_200), ("0", None)])
def test_the_command_counts_in_days(play: Play, days: str, seconds: int | None) -> None:
    script = play(ok(DATASET if seconds is None else ENDING))
    shown = run("datasets", "expire", "mine", "--days", days)
    assert json.loads(script.seen[0].content) == {"expires_in": seconds}
    assert ("deleted at 2026-01-02 00:00 UTC" in shown.stdout) is (seconds is not None)


def test_a_deleted_dataset_is_named(play: Play) -> None:
    script = play(httpx.Response(204))
    assert run("datasets", "delete", "mine").stdout == "deleted dataset mine\n"
    assert (script.seen[0].method, script.seen[0].url.path) == ("DELETE", PATH)
