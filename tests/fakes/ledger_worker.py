"""Processes that work from the ledger and can be killed at any moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import ItemResult
from counterpose_core.errors import BackendUnavailable, LeaseLost
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.outcomes import Done
from fakes.ledgers import create_run

Answer = TypeVar("Answer")


def acknowledge(log: Path, line: str) -> None:
    """Log, outside the ledger, what the ledger has promised."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def acknowledged(log: Path) -> list[str]:
    """Read what was promised."""
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def work(url: str, store_url: str, run_id: str, log: Path, lease_seconds: float) -> None:
    """Lease, make, store and record until the run has ended; log each recorded result in ``log``."""
    ledger, store = Ledger(url), BlobStore(store_url)
    while ledger.runs.get(run_id).state not in FINAL_RUN_STATES:
        group = _answer(partial(ledger.items.lease, f"process-{os.getpid()}", seconds=lease_seconds))
        for item in group.items if group else ():
            image = store.put(f"image of {item.item_key}".encode())
            try:
                done = Done(result=ItemResult(image=image, caption="a sled"))
                _answer(partial(ledger.items.finish, item.id, item.fence, done))
            except LeaseLost:
                break
            acknowledge(log, item.id)


def _answer(call: Callable[[], Answer]) -> Answer:
    """Call until the ledger answers, as the product's worker does: its turn may not come within 10 s."""
    while True:
        try:
            return call()
        except BackendUnavailable:
            continue


def submit(url: str, log: Path, runs: int) -> None:
    """Create runs, and log each in ``log`` once the ledger has it."""
    ledger = Ledger(url)
    for _ in range(runs):
        acknowledge(log, create_run(ledger, sources=2, per_source=4))
