"""Status reads: how many beside the server's shortest answer, and how long at a fixed rate (M3, L1)."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from contextlib import closing

from evaluation.load.gateway_process import gateway_process
from evaluation.load.http_clients import ask_at_rate, ask_in_turn, request
from evaluation.load.measuring import Load, quantile
from evaluation.load.report import Growth, LoadRow
from fakes.ledgers import create_run
from faultline_gateway.ledger import Ledger

IN_FLIGHT = 8
RATE, CONNECTIONS = 500, 64


def status(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield the rate of polls, of `/healthz` in the same seconds, and L1."""
    slice_seconds, slices, seconds = (0.5, 2, 3.0) if load.quick else (2.0, 5, 60.0)
    with gateway_process(load.folder) as gateway:
        with closing(Ledger(gateway.url)) as ledger:
            run_id = create_run(ledger)
        paths = {"health": "/healthz", "poll": f"/v1/stress-tests/{run_id}"}
        rates: dict[str, list[float]] = {name: [] for name in paths}
        # In turn, so that both meet the same load of the machine.
        for _ in range(slices):
            for name, path in paths.items():
                asked = ask_in_turn(
                    gateway.port, request("GET", path), connections=IN_FLIGHT, seconds=slice_seconds
                )
                answers = asyncio.run(asked)
                rates[name].append(sum(each.status == 200 for each in answers) / slice_seconds)
        poll = request("GET", paths["poll"])
        polling = ask_at_rate(
            gateway.port, lambda number: poll, rate=RATE, seconds=seconds, connections=CONNECTIONS
        )
        at_rate = asyncio.run(polling)
    yield _rate("status reads a second, 8 in flight", rates["poll"])
    yield _rate("/healthz a second, 8 in flight", rates["health"])
    ratios = [poll / health for poll, health in zip(rates["poll"], rates["health"], strict=True)]
    yield LoadRow(
        group="status", name="status reads a second over those of /healthz", meets=("M3",), unit="",
        value=statistics.median(ratios), low=min(ratios), high=max(ratios), n=slices, target=0.5,
        side="at least",
    )  # fmt: skip
    of, n = f"{RATE} status reads a second for {seconds:g} s", len(at_rate)
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
