"""Usage: what both clients ask, and what the command prints."""

from __future__ import annotations

import json

from fakes.command import Play, run
from fakes.sdk import Session, ok

USAGE = {
    "tenant": "acme", "month": "2026-11", "renews_at": "2026-12-01T00:00:00Z", "images": 1234,
    "gpu_seconds": 56.7, "images_quota": 100_000, "gpu_seconds_quota": None,
    "stored_bytes": 7_890, "stored_bytes_quota": 100_000_000_000,
}  # fmt: skip


def test_both_clients_read_the_usage(kind: str) -> None:
    session = Session(kind, ok(USAGE))
    found = session(lambda client: client.usage())
    assert (found.tenant, found.images, found.images_quota, found.gpu_seconds_quota) == (
        "acme", 1234, 100_000, None,
    )  # fmt: skip
    assert [(each.method, each.url.path) for each in session.seen] == [("GET", "/v1/usage")]


def test_the_command_shows_used_and_quota(play: Play) -> None:
    play(ok(USAGE), ok(USAGE))
    assert run("usage").stdout.splitlines() == [
        "of 2026-11\tused\tquota", "images\t1,234\t100,000", "GPU-seconds\t57\tnone",
        "bytes stored\t7,890\t100,000,000,000",
        "tenant acme, renewed on 2026-12-01 UTC",
    ]  # fmt: skip
    assert json.loads(run("usage", "--json").stdout)["images"] == 1234
