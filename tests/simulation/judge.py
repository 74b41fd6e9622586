"""The judge: reads the ledger's file by itself after every call, and holds the invariants against it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpose_core.types import FINAL_ITEM_STATES, FINAL_RUN_STATES
from counterpose_gateway.records.items import MAX_ATTEMPTS
from simulation.disk import Disk
from simulation.processes import Process

Row = Mapping[str, Any]

_COUNTED = ("pending", "done", "filtered", "failed", "cancelled")
_REOPENED = ("failed", "cancelled")


class ViolationError(Exception):
    """An invariant does not hold; its message begins with the invariant's name."""


class Judge:
    """Knows what the ledger said before, so it sees what must not change.

    ``processes``: all processes by name, to tell a dead holder of a lease from one that works. Clients tell
    it what they were promised. ``asked``: how many images a server was asked for, by run.
    """

    def __init__(self, file: Path, disk: Disk, time: Callable[[], float]) -> None:
        self.processes: dict[str, Process] = {}
        self.promised: set[str] = set()
        self.asked = Counter[str]()
        self.numbers: dict[str, list[int]] = {}
        self.violation: str | None = None
        self._time = time
        self._disk = disk
        self._reader = sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)
        self._reader.row_factory = sqlite3.Row
        self._version = -1
        self._items: dict[str, Row] = {}
        self._cancelled: set[str] = set()
        self._resumable: set[str] = set()
        self._last_number = 0
        self._events: dict[int, tuple[str, str, str]] = {}
        self._trace = hashlib.sha256()
        self._leased_at: dict[tuple[str, int], float] = {}

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    @property
    def digest(self) -> str:
        """The digest of all that happened: a seed has one."""
        return self._trace.hexdigest()

    def received(self, run_id: str, numbers: Sequence[int]) -> None:
        """Judge what a listener got over all its streams; the last one came to the run's end."""
        missed = [each for each in self.numbers[run_id] if each >= numbers[0]]
        if missed != list(numbers):
            self.found(f"events: a listener of run {run_id} got {list(numbers)}; there were {missed}")

    def found(self, violation: str) -> None:
        """Note a violation that somebody else found."""
        self.violation = self.violation or violation

    def _note(self, what: str) -> None:
        self._trace.update(f"{self._time():.6f} {what}\n".encode())

    def cancel_promised(self, run_id: str) -> None:
        """Note that a client was told of its run's cancellation; it stays cancelled until it is resumed."""
        self._cancelled.add(run_id)
        self._version = -1
        self.look()

    def resume_asked(self, run_id: str) -> None:
        """Note that failed and cancelled items of the run may be opened again."""
        self._cancelled.discard(run_id)
        self._resumable.add(run_id)

    def deletion_asked(self, run_id: str) -> None:
        """Note that the run may disappear."""
        self.promised.discard(run_id)

    def look(self) -> None:
        """Read the ledger if it was written to, and judge what changed; `violation` is the first finding."""
        version = self._reader.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version or self.violation is not None:
            return
        self._version = version
        # Noted, not raised: the product's code, which is on the stack, would take it for an error of its own.
        try:
            self._judge()
        except ViolationError as error:
            self.violation = str(error)

    def _judge(self) -> None:
        self._reader.execute("BEGIN")
        runs = {row["id"]: row for row in self._reader.execute("SELECT * FROM runs")}
        items = {row["id"]: row for row in self._reader.execute("SELECT * FROM items")}
        events = self._reader.execute("SELECT * FROM events ORDER BY id").fetchall()
        paid = dict(self._reader.execute("SELECT run_id, sum(images) FROM spending GROUP BY run_id"))
        self._reader.execute("COMMIT")
        for row in events:
            self._judge_event(row)
        for run in runs.values():
            mine = [row for row in items.values() if row["run_id"] == run["id"]]
            if run["state"] != "deleting":
                _judge_accounting(run, [row for row in mine if row["stage"] <= run["stage"]])
                self._judge_promises(run)
                if (least := self.asked[run["id"]]) > (known := paid.get(run["id"], 0)):
                    raise ViolationError(f"I8: run {run['id']} pays for {known} images and asked for {least}")
        for name, row in items.items():
            self._judge_item(row, self._items.get(name))
        self._judge_losses(runs)
        self._items = items

    def _judge_event(self, row: Row) -> None:
        number, said = row["id"], (row["run_id"], row["message"], row["counts"])
        known = self._events.get(number)
        if known is None and number > self._last_number:
            self._last_number = number
            self._events[number] = said
            self.numbers.setdefault(row["run_id"], []).append(number)
            self._note(f"event {number} {row['message']}")
            counts = json.loads(row["counts"])
            if counts["total"] != sum(counts[name] for name in _COUNTED):
                raise ViolationError(f"I1: event {number} tells {counts}")
        elif known != said:
            raise ViolationError(
                f"events: number {number} was used before; the newest is {self._last_number}"
            )

    def _judge_promises(self, run: Row) -> None:
        if run["id"] in self._cancelled and run["state"] not in ("cancelling", "cancelled"):
            raise ViolationError(f"I7: run {run['id']} was cancelled, and is {run['state']}")

    def _judge_losses(self, runs: Mapping[str, Row]) -> None:
        if lost := self.promised - set(runs):
            raise ViolationError(f"I4: promised runs are gone: {sorted(lost)}")

    def _judge_item(self, row: Row, before: Row | None) -> None:
        if row["attempts"] > MAX_ATTEMPTS:
            raise ViolationError(f"I6: item {row['id']} was tried {row['attempts']} times")
        if before is None:
            if row["state"] != "pending":
                raise ViolationError(f"I2: item {row['id']} began as {row['state']}")
            return
        if row["state"] == before["state"] and row["fence"] == before["fence"]:
            if row["state"] in FINAL_ITEM_STATES and row["result"] != before["result"]:
                raise ViolationError(f"I2: the result of item {row['id']} changed")
            return
        self._judge_change(row, before)

    def _judge_change(self, row: Row, before: Row) -> None:
        name, state, was = row["id"], row["state"], before["state"]
        self._note(f"item {name} {state} {row['fence']} {row['worker']}")
        if was in FINAL_ITEM_STATES and not (was in _REOPENED and row["run_id"] in self._resumable):
            raise ViolationError(f"I2: item {name} had ended as {was}, and is {state}")
        if row["fence"] < before["fence"]:
            raise ViolationError(
                f"I5: the fence of item {name} went from {before['fence']} to {row['fence']}"
            )
        if state in ("done", "filtered"):
            self._judge_result(row)
        if was == "leased" and (row["fence"] > before["fence"] or row["code"] == "lease-lost"):
            self._judge_loss_of_lease(before)
        if state == "leased":
            self._leased_at[name, row["fence"]] = self._time()

    def _judge_result(self, row: Row) -> None:
        result = json.loads(row["result"])
        if not self._disk.has(result["image"]):
            raise ViolationError(f"I3: item {row['id']} is {row['state']}, but its image is not on the disk")
        worker, fence = result["caption"].split()
        if int(fence) != row["fence"]:
            raise ViolationError(
                f"I5: item {row['id']} has the result that {worker} made under fence {fence}; "
                f"the lease of fence {row['fence']} is another's"
            )
        if row["run_id"] in self._cancelled:
            raise ViolationError(f"I7: item {row['id']} became {row['state']} after its run was cancelled")

    def _judge_loss_of_lease(self, before: Row) -> None:
        holder = self.processes[before["worker"]]
        since = self._leased_at.get((before["id"], before["fence"]), 0.0)
        # A release and a new lease may have come between two looks; neither of them costs an attempt.
        if holder.is_alive and holder.troubled_at < since:
            raise ViolationError(
                f"I5: item {before['id']} was taken from {holder.name}, which worked on it all the time"
            )


def _judge_accounting(run: Row, items: list[Row]) -> None:
    counted = Counter("pending" if row["state"] == "leased" else row["state"] for row in items)
    noted = {name: run[name] for name in _COUNTED}
    if noted != {name: counted[name] for name in _COUNTED} or sum(noted.values()) != run["total"]:
        raise ViolationError(f"I1: run {run['id']} notes {noted} of {run['total']}; its items are {counted}")
    if run["state"] in FINAL_RUN_STATES and counted["pending"]:
        raise ViolationError(f"I1: run {run['id']} is {run['state']} with {counted['pending']} items open")
    if len({row["item_key"] for row in items}) != run["total"]:
        raise ViolationError(f"I2: run {run['id']} has fewer item keys than items")
    began = [run[name] for name in ("created_at", "started_at", "ended_at") if run[name] is not None]
    if began != sorted(began):
        raise ViolationError(f"I1: run {run['id']} has a negative duration: {began}")
