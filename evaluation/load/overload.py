"""Ten times as many submissions as can be served: quick refusals, and nothing lost that was accepted (L6)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import closing

from counterpose_gateway.ledger import Ledger
from evaluation.load.gateway_process import GatewayProcess, gateway_process
from evaluation.load.http_clients import Answer, Connection, ask_at_rate, ask_in_turn, request
from evaluation.load.measuring import Load, quantile
from evaluation.load.report import Growth, LoadRow
from fakes.store import image
from fakes.world import CAPTION, CLASSES, Shown

REFUSED = (429, 503)
TIMES = 10
CONNECTIONS = 500
"""More than the gateway serves at once, so that the clients' own limit hides nothing."""


def overload(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield L6, with the rate that is served in turn as what can be served."""
    seconds = 5.0 if load.quick else 60.0
    with gateway_process(load.folder) as gateway:
        asyncio.run(_upload(gateway))
        in_turn = asyncio.run(ask_in_turn(gateway.port, _submission(0), connections=8, seconds=3.0))
        served = sum(each.status == 202 for each in in_turn) / 3.0
        before = gateway.resident_mb()
        rate = TIMES * served
        submitting = ask_at_rate(
            gateway.port, _submission, rate=rate, seconds=seconds, connections=CONNECTIONS
        )
        answers = asyncio.run(submitting)
        grown = gateway.resident_mb() - before
        lost = _lost(gateway, answers)
    n, of = len(answers), f"{TIMES} times the submissions that are served, for {seconds:g} s"
    yield _row("submissions served a second, 8 in flight", "/s", served, len(in_turn))
    yield _row(f"{of}: accepted", "/s", sum(each.status == 202 for each in answers) / seconds, n)
    refused = [1000 * each.seconds for each in answers if each.status in REFUSED]
    yield _row(f"{of}: a refusal, p99", "ms", quantile(refused, 0.99), len(refused), 100.0)
    accepted = [each.seconds for each in answers if each.status == 202]
    yield _row(f"{of}: an acceptance, p95", "s", quantile(accepted, 0.95), len(accepted), 10.0)
    yield _row(f"{of}: accepted and lost", "", lost, len(accepted), 0.0)
    yield _row(f"{of}: neither accepted nor refused", "", n - len(accepted) - len(refused), n, 0.0)
    yield _row(f"{of}: memory beyond that before", "MB", grown, 1, 200.0)


def _submission(number: int) -> bytes:
    body = {
        "dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": number % 2**31,
        "confirm": False,
    }  # fmt: skip
    return request("POST", "/v1/stress-tests", body)


async def _upload(gateway: GatewayProcess) -> None:
    sources = []
    for label in CLASSES[:2]:
        content = base64.b64encode(image(Shown(label, CAPTION.format(label=label)), 0)).decode()
        sources.append(
            {"filename": f"{label}.png", "label": label, "content_base64": content, "caption": label}
        )
    connection = await Connection.open(gateway.port)
    for path, body in (("", {"name": "demo"}), ("/demo/sources", {"sources": sources})):
        answer = await connection.ask(request("POST", f"/v1/datasets{path}", body))
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status} {answer.body.decode()}")
    connection.close()


def _lost(gateway: GatewayProcess, answers: Sequence[Answer]) -> int:
    """Count runs that were accepted and are not there."""
    with closing(Ledger(gateway.url)) as ledger:
        ids = [str(json.loads(each.body)["id"]) for each in answers if each.status == 202]
        return sum(ledger.status.glance(run_id) is None for run_id in ids)


def _row(name: str, unit: str, value: float, n: int, target: float | None = None) -> LoadRow:
    return LoadRow(
        group="overload", name=name, meets=() if target is None else ("L6",), unit=unit, value=value,
        low=value, high=value, n=n, target=target,
    )  # fmt: skip
