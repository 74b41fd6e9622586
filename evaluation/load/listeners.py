"""Many who follow one run: how late events come, and how long a poll takes beside them (M2, L5)."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing

from counterpose_core.contract.runs import RunEvent
from counterpose_gateway.ledger import Ledger
from evaluation.load.databases import OTHERS, ledgers
from evaluation.load.gateway_process import GatewayProcess, gateway_process
from evaluation.load.hands import finish_items
from evaluation.load.http_clients import Answer, Listener, listen, poll_regularly, request
from evaluation.load.measuring import Load, quantile
from evaluation.load.report import Growth, LoadRow
from fakes.ledgers import create_run

MANY = 1_000
PAUSE = 0.1
"""Seconds between two events: a run whose items take seconds in several hands."""
LAG_SECONDS, POLL_MS = 1.0, 100.0


def listeners(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield the lag of events and the time of polls with 20, 200 and 1,000 listeners on one run.

    On PostgreSQL with 200, without targets.
    """
    points = []
    for number in (20, 200) if load.quick else (20, 200, MANY):
        folder = load.folder / str(number)
        folder.mkdir()
        with gateway_process(folder) as gateway:
            lag, poll = _lag_and_poll(gateway, number, load, with_targets=number == MANY)
        points.append((float(number), lag.value))
        yield lag
        yield poll
    yield Growth(
        group="listeners", name="lag of events, p99", size="listeners", unit="s", points=tuple(points)
    )
    for database in OTHERS:
        with (
            ledgers(load.folder, database) as [(_, url)],
            gateway_process(load.folder, url) as gateway,
        ):
            for found in _lag_and_poll(gateway, 20 if load.quick else 200, load):
                yield found.model_copy(update={"name": f"{found.name}, {database}"})


def _lag_and_poll(
    gateway: GatewayProcess, number: int, load: Load, *, with_targets: bool = False
) -> tuple[LoadRow, LoadRow]:
    run_id = _new_run(gateway, 30 if load.quick else 200)
    followed = asyncio.run(_followed(gateway, run_id, listeners=number, pollers=5, pause=PAUSE))
    lags, polls = followed.lags(), followed.poll_ms()
    of = f"{number:,} listeners on one run"
    most_lag, most_ms = (LAG_SECONDS, POLL_MS) if with_targets else (None, None)
    return (
        _quantile("listeners", f"{of}: lag of an event behind its commit, p99", "s", lags, 0.99, most_lag),
        _quantile("listeners", f"{of}: status poll, p99", "ms", polls, 0.99, most_ms),
    )


def mixed(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield L5: a run of 2,000 items in quick hands, 50 pollers and 20 listeners."""
    items = 200 if load.quick else 2_000
    with gateway_process(load.folder) as gateway:
        run_id = _new_run(gateway, items)
        followed = asyncio.run(_followed(gateway, run_id, listeners=20, pollers=50, pause=0.0))
        with closing(Ledger(gateway.url)) as ledger:
            recorded = [event.id for event in _all_events(ledger, run_id)]
            missing = items - ledger.runs.get(run_id).request_counts.done
    missing += sum([number for number, _ in each.seen] != recorded for each in followed.listeners)
    what = f"{items:,} items, 50 pollers, 20 listeners"
    yield LoadRow(
        group="mixed", name=f"{what}: items lost, and listeners who missed or repeated an event",
        meets=("L5",), unit="", value=missing, low=missing, high=missing, n=items, target=0,
    )  # fmt: skip
    yield _quantile("mixed", f"{what}: status poll, p99", "ms", followed.poll_ms(), 0.99, POLL_MS)
    lags = followed.lags()
    yield _quantile("mixed", f"{what}: lag of an event, p99", "s", lags, 0.99, LAG_SECONDS)


class Followed:
    """What came of following a run to its end."""

    def __init__(
        self, committed: dict[int, float], listeners: Sequence[Listener], polls: Sequence[Answer]
    ) -> None:
        self.committed = committed
        self.listeners = listeners
        self.polls = polls

    def lags(self) -> list[float]:
        """Return the seconds between commit and receipt, of every event for every listener.

        A commit is noted when its call returns: on a busy machine a listener may have the event before that.
        """
        return [
            max(0.0, at - self.committed[number])
            for listener in self.listeners
            for number, at in listener.seen
            if number in self.committed
        ]

    def poll_ms(self) -> list[float]:
        """Return the milliseconds of every poll; one that failed counts as a minute."""
        return [1000 * each.seconds if each.status == 200 else 60_000.0 for each in self.polls]


async def _followed(
    gateway: GatewayProcess, run_id: str, *, listeners: int, pollers: int, pause: float
) -> Followed:
    path = f"/v1/runs/{run_id}"
    opened = await listen(gateway.port, f"{path}/events", listeners)
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
        working = loop.run_in_executor(processes, finish_items, gateway.url, run_id, pause, 10**9)
        polling = loop.run_in_executor(processes, _poll, gateway.port, path, pollers)
        committed = await working
        polls = await polling
    # Streams end with the run.
    while not all(listener.ended for listener in opened):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return Followed(committed, opened, polls)


def _poll(port: int, path: str, pollers: int) -> list[Answer]:
    """Poll in a process of its own, so that reading events takes nothing from it, until the run has ended."""
    return asyncio.run(_polling(port, path, pollers))


async def _polling(port: int, path: str, pollers: int) -> list[Answer]:
    answers: list[Answer] = []
    while not answers or b'"state":"completed"' not in answers[-1].body:
        answers += await poll_regularly(port, request("GET", path), pollers=pollers, pause=0.25, seconds=2.0)
    return answers


def _new_run(gateway: GatewayProcess, items: int) -> str:
    with closing(Ledger(gateway.url)) as ledger:
        return create_run(ledger, sources=items // 10, per_source=10)


def _all_events(ledger: Ledger, run_id: str) -> Iterator[RunEvent]:
    after = 0
    while events := ledger.events.page(run_id, after=after):
        yield from events
        after = events[-1].id


def _quantile(
    group: str, name: str, unit: str, values: Sequence[float], share: float, target: float | None
) -> LoadRow:
    return LoadRow(
        group=group, name=name, meets=("L5",) if group == "mixed" else ("M2",), unit=unit,
        value=quantile(values, share), low=min(values), high=max(values), n=len(values), target=target,
    )  # fmt: skip
