"""Parts of a run's columns that are kept in files: read where they are true, made of documents elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from counterpose_core.contract.runs import Run
from counterpose_core.stress_test import failure_modes, insights
from counterpose_core.text import caption_diff
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.stress_test.columns import part as making
from counterpose_gateway.methods.stress_test.columns.part import part_of
from counterpose_gateway.summaries.column_keeper import KEPT_AT_ONCE
from counterpose_gateway.summaries.columns import ColumnFolder, Part, Stamps, answers, codes, features
from counterpose_gateway.summaries.columns.parts import PART
from counterpose_gateway.version import VERSION

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

_MAKERS = (making, answers, codes, features, failure_modes, insights, caption_diff)
"""The code that decides what the columns of a recorded item are."""

LOOKED_AT = 8
"""Parts with open items, one after the other, beyond which none is looked at: work goes in planned order."""


@cache
def made_by() -> str:
    """Return a name of the code that makes columns: files that other code made are made anew."""
    found = sha256(VERSION.encode())
    for module in _MAKERS:
        found.update(Path(str(module.__file__)).read_bytes())
    return f"stress-test {found.hexdigest()}"


def kept_parts(run: Run, ledger: Ledger, folder: ColumnFolder) -> Iterator[Part]:
    """Yield all parts of a run; one that is made of documents is kept if its items have ended."""
    folder.used(run.id)
    stamps = Stamps.of(ledger.items.stamps(run.id))
    for number, first in enumerate(range(0, len(stamps), PART)):
        wanted = stamps.part(first, PART)
        found = folder.read(run.id, number, wanted, made_by())
        yield found or _made(run, ledger, folder, number, wanted)


def keep_parts(run: Run, ledger: Ledger, folder: ColumnFolder) -> int:
    """Keep some parts of a run whose items have ended, in planned order; returns how many.

    Parts that are kept and out of date, as after a resumption, are left to who reads them.
    """
    kept = waiting = 0
    known = folder.kept(run.id)
    parts = -(-run.request_counts.total // PART) if run.request_counts.total >= PART else 0
    for number in (each for each in range(parts) if each not in known):
        if kept == KEPT_AT_ONCE or waiting == LOOKED_AT:
            break
        stamps = Stamps.of(ledger.items.stamps(run.id, first=number * PART, number=PART))
        if _may_be_kept(run, stamps):
            _made(run, ledger, folder, number, stamps)
            kept += 1
        else:
            waiting += 1
    return kept


def _may_be_kept(run: Run, stamps: Stamps) -> bool:
    # The last part of a run that goes on may grow by the items of a later stage.
    return stamps.all_ended and (len(stamps) == PART or run.state in FINAL_RUN_STATES)


def _made(run: Run, ledger: Ledger, folder: ColumnFolder, number: int, stamps: Stamps) -> Part:
    first = number * PART
    found = part_of(ledger.items.recorded(run.id, first=first, number=PART), first)
    if _may_be_kept(run, stamps):
        # Looked at again: between the stamps and the documents the run may have been resumed.
        after = Stamps.of(ledger.items.stamps(run.id, first=first, number=PART))
        if after.equal(stamps):
            folder.write(run.id, number, found, stamps, made_by())
    return found
