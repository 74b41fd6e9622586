"""A process that works on a run with the services of the hunted world and can be killed at any moment."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import CounterposeError
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.items import LeasedGroup, LeasedStage
from counterpose_gateway.records.outcomes import Ended
from counterpose_gateway.services.ports import Services
from counterpose_gateway.worker.planner import Planner
from counterpose_gateway.worker.worker import Worker
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
        items, stages = self.items, self.stages
        stages.lease = partial(self._lease_stage, stages.lease)  # type: ignore[method-assign]
        items.lease_many = partial(self._lease_groups, items.lease_many)  # type: ignore[method-assign]
        items.record_many = partial(self._record, items.record_many)  # type: ignore[method-assign]

    def _lease_stage(
        self, lease: Callable[..., LeasedStage | None], *given: Any, **named: Any
    ) -> LeasedStage | None:
        """Lease the planning of a stage."""
        leased = lease(*given, **named)
        if leased is not None:
            self._note(leased.stage, f"{leased.stage} planning")
        return leased

    def _lease_groups(
        self, lease: Callable[..., list[LeasedGroup]], *given: Any, **named: Any
    ) -> list[LeasedGroup]:
        """Lease groups."""
        groups = lease(*given, **named)
        if groups:
            stage = self.runs.get(groups[0].run_id).stage
            self._note(stage, f"{stage} leased", pauses_for=groups[0].items[0].id)
        return groups

    def _record(
        self, record: Callable[[Sequence[Ended]], list[Ended]], ended: Sequence[Ended]
    ) -> list[Ended]:
        """Record outcomes; a process that paused does so once, and is killed then."""
        stage = 0
        try:
            stage = self.runs.get(ended[0].item_id.rpartition(".")[0]).stage
            lost = record(ended)
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
    while ledger.runs.get(run_id).state not in FINAL_RUN_STATES:
        asyncio.run(worker.work_off())
    if moment is not None:
        # It may come after the last outcome.
        time.sleep(moment.seconds + 1.0)
