"""Results as JSON lines: every ended item in order, then one line that says whether the run is complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from faultline_core.contract.runs import RunItem
from faultline_core.types import FINAL_ITEM_STATES, FINAL_RUN_STATES
from faultline_gateway.runs.context import RunLedger

MEDIA_TYPE = "application/jsonl"


def result_lines(
    ledger: RunLedger, run_id: str, shape: type[RunItem[Any]], *, from_ordinal: int
) -> Iterator[str]:
    """Yield a line for each ended item from ``from_ordinal`` on, then the trailer.

    ``shape`` is the item of runs of this kind.
    The trailer holds the number of lines, their SHA-256 with line ends, and ``complete``: whether the
    run had ended before the first line was read.
    """
    # Read before the items: a run that ends meanwhile is reported as incomplete, never the reverse.
    complete = ledger.run(run_id).state in FINAL_RUN_STATES
    checksum, lines = hashlib.sha256(), 0
    for item in ledger.items_of(run_id, shape, from_ordinal=from_ordinal):
        # Open items are left out: every line is final, so lines read twice are equal.
        if item.state in FINAL_ITEM_STATES:
            line = item.model_dump_json() + "\n"
            checksum.update(line.encode())
            lines += 1
            yield line
    yield json.dumps({"lines": lines, "sha256": checksum.hexdigest(), "complete": complete}) + "\n"
