"""T2: schemathesis fuzzes a gateway of two tenants with one's key, and asks for the other's objects, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.live import MAX_ITEMS, Known, Live, app_of, seeded, served, token_services
from contract.narrowed import narrowed
from contract.test_fuzzing import CASES, Round, fuzz
from fakes.access_keys import gateway_of
from fakes.gateway import fake_gateway
from fakes.ray_jobs_api import FakeRayJobs, clusters_of

# What is refused for its form finds no object: `test_fuzzing` asks for that.
ROUND = Round("positive", "negative_data_rejection", narrowed, "fuzzing")
SHARE = max(2, CASES // 10)


class Watch:
    """Passes requests on, and notes each secret in an answer that was not in the request."""

    def __init__(self, app: ASGIApp, secrets: Sequence[str]) -> None:
        self._app = app
        self._secrets = [secret.encode() for secret in secrets]
        self.answers = 0
        self.leaks: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Watch one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        said = bytearray(scope["raw_path"] + scope["query_string"])
        told = bytearray()

        async def heard() -> Message:
            message = await receive()
            said.extend(message.get("body", b""))
            return message

        async def telling(message: Message) -> None:
            headers = [part for each in message.get("headers", ()) for part in each]
            told.extend(b" ".join([message.get("body", b""), *headers]))
            await send(message)

        await self._app(scope, heard, telling)
        self.answers += 1
        found = [secret.decode() for secret in self._secrets if secret in told and secret not in said]
        self.leaks += [f"{scope['method']} {scope['path']}: {secret}" for secret in found]


@pytest.mark.timeout(max(1800, 30 * CASES))
@pytest.mark.fault("T2", "B62")
async def test_no_answer_has_a_byte_of_another_tenant(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_items_per_run": MAX_ITEMS, "import_from": ("memory://",)}
    clusters = clusters_of(FakeRayJobs(), tmp_path)
    async with fake_gateway(tmp_path, ports=token_services, clusters=clusters, **settings) as gateway:
        other, mine = gateway_of(gateway, "default"), gateway_of(gateway, "acme")
        theirs, ours = [await seeded(each, gateway.worker()) for each in (other, mine)]
        await other.http.post("/v1/datasets", json={"name": "quagga"})
        # An image that nobody else has: the fakes draw the same from the same seed.
        only = other.source("sled", 50) | {"caption": "a photo of a sled with a quagga"}
        await other.http.post("/v1/datasets/quagga/sources", json={"sources": [only]})
        hidden = other.ledger.datasets.sources("quagga")[0].image
        for run in (run for of_kind in theirs.runs.values() for run in of_kind):
            other.ledger.runs.rename(run, "zebrafish")
        watch = Watch(app_of(gateway), ["quagga", "zebrafish", hidden, *_ids(theirs)])
        async with served(gateway, watch) as address:
            image = gateway.source("sled", 99)["content_base64"]
            live = Live(address, _both(theirs, ours, hidden), image, has_keys=True)
            key = mine.http.headers["authorization"].removeprefix("Bearer ")
            document = (await mine.http.get("/openapi.json")).json()
            drawn = ROUND.document(document, live)
            code = await fuzz(ROUND, drawn, live, tmp_path, cases=SHARE, key=key)
    assert code == 0
    assert watch.leaks == []
    assert watch.answers > 100


def _ids(known: Known) -> list[str]:
    return [*(run for of_kind in known.runs.values() for run in of_kind), *known.jobs, known.webhook]


def _both(theirs: Known, ours: Known, hidden: str) -> Known:
    """What requests name: the other's, and some of the caller's."""
    runs = {kind: [*theirs.runs[kind], *ours.runs[kind]] for kind in ours.runs}
    return replace(
        theirs, runs=runs, image=hidden, cursors=ours.cursors, jobs=[*theirs.jobs, *ours.jobs]
    )  # fmt: skip
