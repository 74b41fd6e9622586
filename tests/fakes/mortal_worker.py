"""A process that works on a run with the services of the hunted world and can be killed at any moment."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import CounterposeError
from counterpose_core.types import FINAL_RUN_STATES, RunKind
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.items import LeasedGroup, LeasedStage
from counterpose_gateway.records.outcomes import Ended
from counterpose_gateway.runs.planner import Planner
from counterpose_gateway.services.ports import Services
from counterpose_gateway.worker import Worker
from fakes.hunted_world import HuntEditor, hunted_services
from fakes.ledger_worker import acknowledge, acknowledged
from fakes.shared_world import KeptShown, SharedStore
from fakes.world import FakeWorld

LEASE_SECONDS = 1_000.0


@dataclass(frozen=True)
class Moment:
    """When a process is killed: some seconds after so many lines of a stage, or of a later one, were logged.

    It is killed earlier if the stage after that begins.

    If it pauses, it waits with a lease until another process has recorded the first of its items, and lives
    until it has tried to record an outcome.
    """

    stage: int
    lines: int
    seconds: float = 0.0
    pauses: bool = False


def in_stage(log: Path, stage: int) -> int:
    """How many lines of a stage were logged."""
    return sum(line.startswith(f"{stage} ") for line in acknowledged(log))


class MortalLedger(Ledger):
    """Logs what is leased, and what is recorded once it is; its process ends at a moment."""

    def __init__(self, url: str, log: Path, ahead: float, moment: Moment | None) -> None:
        super().__init__(url, clock=lambda: time.time() + ahead)
        self._log = log
        self._moment = moment
        self._has_paused = False
        self._dies_in: int | None = None
        """The stage in which its end was decided."""

    def lease_stage(
        self,
        kinds: Collection[RunKind],
        *,
        seconds: float,
        first_of: Collection[RunKind] = (),
        run_id: str | None = None,
    ) -> LeasedStage | None:
        """Lease the planning of a stage."""
        leased = super().lease_stage(kinds, seconds=seconds, first_of=first_of, run_id=run_id)
        if leased is not None:
            self._note(leased.stage, f"{leased.stage} planning")
        return leased

    def lease_groups(
        self, worker: str, *, seconds: float, most: int, run_id: str | None = None
    ) -> list[LeasedGroup]:
        """Lease groups."""
        groups = super().lease_groups(worker, seconds=seconds, most=most, run_id=run_id)
        if groups:
            stage = self.run(groups[0].run_id).stage
            self._note(stage, f"{stage} leased", pauses_for=groups[0].items[0].id)
        return groups

    def record_many(self, ended: Sequence[Ended]) -> list[Ended]:
        """Record outcomes; a process that paused does so once, and is killed then."""
        stage = 0
        try:
            stage = self.run(ended[0].item_id.rpartition(".")[0]).stage
            lost = super().record_many(ended)
        except (CounterposeError, SQLAlchemyError):
            # A database that is busy records nothing.
            acknowledge(self._log, f"{stage} refused")
            raise
        else:
            if lost:
                acknowledge(self._log, f"{stage} refused")
            # All before the end: the one that waits for the first of its items must see it.
            recorded = [each for each in ended if each not in lost]
            if recorded:
                self._note(stage, "\n".join(f"{stage} recorded {each.item_id}" for each in recorded))
            return lost
        finally:
            if self._has_paused:
                os.kill(os.getpid(), signal.SIGKILL)

    def _note(self, stage: int, told: str, *, pauses_for: str = "") -> None:
        acknowledge(self._log, told)
        if self._dies_in is not None and stage > self._dies_in:
            # The timer is late on a busy machine; meanwhile the run would end.
            os.kill(os.getpid(), signal.SIGKILL)
        moment, logged = self._moment, in_stage(self._log, stage)
        # A stage may have ended before a late kill of the process before this one.
        if moment is None or (stage, logged) < (moment.stage, moment.lines):
            return
        if not moment.pauses:
            if not moment.seconds:
                os.kill(os.getpid(), signal.SIGKILL)
            self._moment, self._dies_in = None, stage
            threading.Timer(moment.seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
        elif pauses_for:
            self._moment, self._has_paused = None, True
            acknowledge(self._log, f"{stage} paused")
            while not any(line.endswith(f"recorded {pauses_for}") for line in acknowledged(self._log)):
                time.sleep(0.01)


def deep_snow(world: FakeWorld) -> Services:
    """The hunted world, in which snow is said with an adjective that descriptions do not need."""
    return replace(hunted_services(world), editor=HuntEditor(world, snow="deep snow"))


def keep_shown(folder: Path, world: FakeWorld) -> None:
    """Let the processes of a folder know what the images of a world show."""
    kept = KeptShown(folder / "shown")
    for ref, shown in world.shown.items():
        kept[ref] = shown


def work_until(url: str, folder: Path, run_id: str, log: Path, number: int, moment: Moment | None) -> None:
    """Work until the run has ended, or the moment has come.

    The clock of each process is ahead of those with a smaller number by more than a lease: what they hold
    has run out, whether they were killed or still live.
    """
    ledger = MortalLedger(url, log, 2.0 * LEASE_SECONDS * number, moment)
    store = BlobStore(str(folder / "store"))
    world = FakeWorld(store=SharedStore(store), shown=KeptShown(folder / "shown"))
    planner = Planner(ledger, METHODS, lease_seconds=LEASE_SECONDS, most_items=100_000, store=store)
    worker = Worker(
        f"process-{number}", ledger=ledger, store=store, services=deep_snow(world), concurrency=1,
        lease_seconds=LEASE_SECONDS, planner=planner,
    )  # fmt: skip
    while ledger.run(run_id).state not in FINAL_RUN_STATES:
        asyncio.run(worker.work_off())
    if moment is not None:
        # It may come after the last outcome.
        time.sleep(moment.seconds + 1.0)
