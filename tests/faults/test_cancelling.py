"""F18, F20 and F21: clients that leave, and runs that are cancelled while they end."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest

from counterpose_core.errors import CounterposeError
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from fakes.ledger_audit import violated
from fakes.ledgers import create_run, done, lease, migrated_file
from fakes.postgres import can_run_postgres, postgres
from fakes.processes import look_until
from fakes.reference_run import ReferenceRuns, reference_runs, report

CLIENTS = 500
CANCELS = 200
RACES = {"sqlite": 500, "postgresql": 100}
SPREAD_SECONDS = 0.006
"""A transaction of either side takes 1 to 5 ms: within this, each comes first about as often."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceRuns]:
    with reference_runs(tmp_path_factory.mktemp("runs"), lease_seconds=10.0) as started:
        yield started


def is_socket(descriptor: Path) -> bool:
    """Whether a process's descriptor is a socket; one that closes meanwhile is none."""
    try:
        return str(descriptor.readlink()).startswith("socket:")
    except FileNotFoundError:
        return False


async def leave(runs: ReferenceRuns, run_id: str, number: int) -> None:
    """Begin a stream, a wait, an upload or a download, and go away in the middle of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", runs.programs.port)
    asked = (
        f"GET /v1/runs/{run_id}/events",
        f"GET /v1/runs/{run_id}/wait?seconds=60",
        "POST /v1/datasets/demo/sources",
        f"GET /v1/runs/{run_id}/results",
    )[number % 4]
    length = "content-length: 100000\r\ncontent-type: application/json\r\n" if asked[0] == "P" else ""
    writer.write(f"{asked} HTTP/1.1\r\nhost: localhost\r\n{length}\r\n".encode())
    if length:
        writer.write(b'{"sources": [' + b" " * 50_000)
        await writer.drain()
    elif "wait" not in asked:
        assert b" 200 " in await reader.read(100)
    writer.transport.abort()


@pytest.mark.fault("F18")
@pytest.mark.timeout(200)
def test_f18_clients_that_leave_disturb_no_run_and_leave_nothing_open(runs: ReferenceRuns) -> None:
    undisturbed = runs.told(runs.start_run())
    descriptors = Path(f"/proc/{runs.programs.running['serve'].pid}/fd")

    def opened() -> int:
        # Connections alone: the pool of the ledger grows with the first readers at once, to its own bound.
        return sum(is_socket(each) for each in descriptors.iterdir())

    async def all_leave(run_id: str, numbers: range) -> None:
        await asyncio.gather(*(leave(runs, run_id, number) for number in numbers))

    before = opened()
    run_id = runs.start_run()
    for start in range(0, CLIENTS, 20):
        asyncio.run(all_leave(run_id, range(start, start + 20)))
    told = runs.told(run_id)
    look_until(lambda: opened() <= before + 5)
    report("F18", told, undisturbed, CLIENTS, sockets=opened() - before)
    assert told.items == undisturbed.items


@pytest.mark.fault("F20")
@pytest.mark.timeout(300)
def test_f20_two_hundred_cancelled_runs_leave_no_lease_and_disturb_no_other(runs: ReferenceRuns) -> None:
    undisturbed = runs.told(runs.start_run())
    cancelled = []
    for _ in range(CANCELS):
        cancelled.append(runs.start_run(limit=4))
        # It may have ended already.
        assert runs.http.post(f"/v1/runs/{cancelled[-1]}/cancel").status_code in (200, 202, 409)
    told = runs.told(runs.start_run())
    look_until(lambda: all(runs.ledger.runs.get(each).state in FINAL_RUN_STATES for each in cancelled))
    report("F20", told, undisturbed, CANCELS)
    assert told.items == undisturbed.items
    for each in cancelled:
        assert violated(runs.ledger, each) == []
        assert runs.ledger.runs.get(each).request_counts.pending == 0
    assert {runs.ledger.runs.get(each).state for each in cancelled} >= {"cancelled"}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield migrated_file(tmp_path)
        return
    if not can_run_postgres():
        pytest.skip("no PostgreSQL server is installed; as root `make system` installs Debian's")
    with postgres() as server:
        yield server.migrated_database()


@pytest.mark.fault("F21")
@pytest.mark.timeout(300)
def test_f21_a_run_that_is_cancelled_as_it_ends_has_one_final_state(url: str) -> None:
    ledger, ended = Ledger(url), list[str]()
    races = RACES[url.partition("+")[0].partition(":")[0]]
    for seed in range(races):
        draw = random.Random(seed)
        run_id = create_run(ledger, sources=1, per_source=1, key=f"race-{seed}")
        item = lease(ledger).items[0]
        pauses, together = (
            (draw.uniform(0.0, SPREAD_SECONDS), draw.uniform(0.0, SPREAD_SECONDS)),
            threading.Barrier(2),
        )

        def race(pause: float, call: str, *told: object, together: threading.Barrier = together) -> None:
            together.wait()
            time.sleep(pause)
            # One of the two comes too late, and is told so.
            try:
                attrgetter(call)(ledger)(*told)
            except CounterposeError:
                return

        threads = [
            threading.Thread(target=race, args=(pauses[0], "items.finish", item.id, item.fence, done())),
            threading.Thread(target=race, args=(pauses[1], "runs.cancel", run_id)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        state = ledger.runs.get(run_id).state
        assert state in ("completed", "cancelled"), (seed, state)
        assert violated(ledger, run_id) == [], seed
        ended.append(state)
    ledger.close()
    # Otherwise nothing has raced.
    assert min(ended.count("completed"), ended.count("cancelled")) > races // 50
