"""What a kill at half-way costs: 200 items by a plain loop, by the gateway's worker, and by a Ray job."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from evaluation.evidence.lost_work import Kill
from fakes.cluster_jobs import ITEMS, LEASE_SECONDS, PER_CLASS, Asking, Worked, worked
from fakes.killed_programs import Programs, started_programs
from fakes.postgres import postgres
from fakes.process_trees import kill
from fakes.processes import look_until

CALL_SECONDS = 0.1


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """Services, gateway and database, without a worker."""
    folder = tmp_path_factory.mktemp("lost") / "state"
    with postgres() as server:
        url = server.empty_database()
        own = Programs(
            url,
            folder,
            world=(str(PER_CLASS), "", str(CALL_SECONDS)),
            more={"COUNTERPOSE_LEASE_SECONDS": LEASE_SECONDS},
        )
        with started_programs(own, ("services", "serve")) as programs, closing(Ledger(url)) as ledger:
            opened = Asking(programs, ledger)
            opened.upload()
            yield opened


@pytest.fixture(scope="module")
def undisturbed(gateway: Asking) -> Worked:
    """The run that nobody kills."""
    run_id = gateway.create()
    gateway.programs.start("work")
    look_until(lambda: gateway.ledger.runs.get(run_id).state in FINAL_RUN_STATES)
    gateway.programs.kill("work")
    return worked(gateway.ledger, run_id)


def test_a_plain_loop_that_is_killed_loses_everything(
    gateway: Asking, tmp_path: Path, measured: Callable[[Kill], None]
) -> None:
    run_id, out = gateway.create(), tmp_path / "results.json"
    command = [
        "fakes.plain_loop",
        gateway.programs.url,
        str(gateway.programs.folder / "store"),
        run_id,
        str(out),
    ]
    loop = subprocess.Popen(
        [sys.executable, "-m", *command],
        env=os.environ | gateway.programs.settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert loop.stdout is not None
    done = next(int(line) for line in loop.stdout if int(line) >= ITEMS // 2)
    kill(loop.pid)
    loop.communicate()
    # All that had ended has to be done again, and nothing was in hand.
    assert not out.exists()
    measured(Kill(by="a plain loop", killed="the loop", ended=done, lost=done, again=0))
    gateway.ledger.runs.cancel(run_id)


def test_the_gateway_s_worker_that_is_killed_loses_nothing(
    gateway: Asking, undisturbed: Worked, measured: Callable[[Kill], None]
) -> None:
    run_id = gateway.create()
    gateway.programs.start("work")
    look_until(lambda: gateway.ended_items(run_id) >= ITEMS // 2)
    ended = gateway.ended_items(run_id)
    gateway.programs.kill("work")
    kept = gateway.ended_items(run_id)
    gateway.programs.start("work")
    look_until(lambda: gateway.ledger.runs.get(run_id).state in FINAL_RUN_STATES)
    gateway.programs.kill("work")
    found = worked(gateway.ledger, run_id)
    measured(Kill(by="the gateway's worker", killed="the worker", ended=kept, lost=0, again=found.again))
    assert ended <= kept < ITEMS
    assert found.results == undisturbed.results
    # At most what was in hand: four groups of five items.
    assert 0 < found.again <= 4 * 5
