"""A process that begins to resume or to delete a large run, and halts until it is killed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import event

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.runs import changes
from counterpose_gateway.records import pace
from fakes.ledger_worker import acknowledge

FOR_EVER = 1000.0
SMALL_CHUNK = 3

Verb = Literal["resume", "delete"]
Moment = Literal["between-chunks", "within-a-chunk"]


def make_chunks_small() -> None:
    """Let this process change three rows of a run in one transaction."""
    pace.CHUNK = changes.DELETED_AT_ONCE = SMALL_CHUNK
    changes.RESUMED_AT_ONCE = 5


def change_and_halt(url: str, run_id: str, verb: Verb, moment: Moment, commits: int, log: Path) -> None:
    """Call ``verb`` and halt between its commit of this number and the next one."""
    make_chunks_small()
    ledger = Ledger(url)
    counted = 0

    def count(_: Any) -> None:
        nonlocal counted
        if moment == "within-a-chunk" and counted == commits:
            _halt(log)
        counted += 1

    class HaltingPace(pace.Pace):
        def let_others_in(self, sleep: Any = time.sleep) -> None:
            if moment == "between-chunks" and counted == commits:
                _halt(log)

    event.listen(ledger._session.database.engine, "commit", count)
    pace.Pace = HaltingPace  # type: ignore[misc]  # this process is killed
    getattr(ledger.runs, verb)(run_id)


def _halt(log: Path) -> None:
    acknowledge(log, "halted")
    time.sleep(FOR_EVER)
