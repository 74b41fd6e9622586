"""Status reads: how many beside the server's shortest answer, and how long at a fixed rate (M3, L1)."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from contextlib import closing

from counterpose_gateway.ledger import Ledger
from evaluation.load.databases import OTHERS, ledgers
from evaluation.load.gateway_process import GatewayProcess, gateway_process
from evaluation.load.http_clients import ask_at_rate, ask_in_turn, request
from evaluation.load.measuring import Load, quantile
from evaluation.load.report import Growth, LoadRow
from fakes.ledgers import create_run

IN_FLIGHT = 8
RATE, CONNECTIONS = 500, 64
RATE_OF_OTHERS = 200
"""Of PostgreSQL, which serves several gateways: a read there is a call in a thread."""


def status(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield the rate of polls, of `/healthz` in the same seconds, and L1; the same on PostgreSQL."""
    with gateway_process(load.folder) as gateway:
        yield from _of_gateway(gateway, load)
        yield from _at_rate(gateway, 3.0 if load.quick else 60.0)
    for database in OTHERS:
        with (
            ledgers(load.folder, database) as [(_, url)],
            gateway_process(load.folder, url) as gateway,
        ):
            for found in (
                *_of_gateway(gateway, load),
                *_at_rate(gateway, 3.0 if load.quick else 20.0, RATE_OF_OTHERS),
            ):
                yield found.model_copy(
                    update={"name": f"{found.name}, {database}", "meets": (), "target": None}
                )


def _poll_of_new_run(gateway: GatewayProcess) -> str:
    with closing(Ledger(gateway.url)) as ledger:
        return f"/v1/runs/{create_run(ledger)}"


def _of_gateway(gateway: GatewayProcess, load: Load) -> Iterator[LoadRow]:
    slice_seconds, slices = (0.5, 2) if load.quick else (2.0, 5)
    paths = {"health": "/healthz", "poll": _poll_of_new_run(gateway)}
    rates: dict[str, list[float]] = {name: [] for name in paths}
    # In turn, so that both meet the same load of the machine.
    for _ in range(slices):
        for name, path in paths.items():
            asked = ask_in_turn(
                gateway.port, request("GET", path), connections=IN_FLIGHT, seconds=slice_seconds
            )
            answers = asyncio.run(asked)
            rates[name].append(sum(each.status == 200 for each in answers) / slice_seconds)
    yield _rate("status reads a second, 8 in flight", rates["poll"])
    yield _rate("/healthz a second, 8 in flight", rates["health"])
    ratios = [poll / health for poll, health in zip(rates["poll"], rates["health"], strict=True)]
    yield LoadRow(
        group="status", name="status reads a second over those of /healthz", meets=("M3",), unit="",
        value=statistics.median(ratios), low=min(ratios), high=max(ratios), n=slices, target=0.5,
        side="at least",
    )  # fmt: skip


def _at_rate(gateway: GatewayProcess, seconds: float, rate: int = RATE) -> Iterator[LoadRow]:
    poll = request("GET", _poll_of_new_run(gateway))
    polling = ask_at_rate(
        gateway.port, lambda number: poll, rate=rate, seconds=seconds, connections=CONNECTIONS
    )
    at_rate = asyncio.run(polling)
    of, n = f"{rate} status reads a second for {seconds:g} s", len(at_rate)
    taken = [1000 * each.seconds for each in at_rate]
    yield LoadRow(
        group="status", name=f"{of}: p99", meets=("L1",), unit="ms", value=quantile(taken, 0.99),
        low=min(taken), high=max(taken), n=n, target=50,
    )  # fmt: skip
    errors = sum(each.status != 200 for each in at_rate)
    yield LoadRow(
        group="status", name=f"{of}: errors", meets=("L1",), unit="", value=errors, low=errors, high=errors,
        n=n, target=0,
    )  # fmt: skip


def _rate(name: str, rates: list[float]) -> LoadRow:
    return LoadRow(
        group="status", name=name, meets=(), unit="/s", value=statistics.median(rates), low=min(rates),
        high=max(rates), n=len(rates),
    )  # fmt: skip
