"""How many kept edits look like one of LANCE's failure modes, and which."""

from __future__ import annotations

import numpy as np

from counterpose_core.contract.stress_tests import FailureMode
from counterpose_core.statistics.coded import Flags
from counterpose_core.stress_test.failure_modes import FAILURE_MODES, PER_EDIT, RULES, lower_fence
from counterpose_core.stress_test.failure_modes import FailureMode as Mode
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator

MOST_EXAMPLES = 20


def count_failure_modes(columns: ItemColumns, estimator: LanceEstimator) -> dict[str, FailureMode]:
    """Tag the kept edits of the screen; the share is of kept edits, with an interval over sources."""
    edits = columns.screened & columns.done & columns.of("kind", "edit") & (columns.edit_type >= 0)
    edits &= columns.with_result
    tagged = _tagged(columns, edits)
    return {
        mode: FailureMode(
            count=total(flags),
            share=estimator.share_of(f"failure-mode/{mode}", columns.unit[edits], flags[edits]),
            rule=RULES[mode],
            example_items=[columns.ids[at] for at in np.flatnonzero(flags)[:MOST_EXAMPLES].tolist()],
        )
        for mode, flags in tagged.items()
    }


def _tagged(columns: ItemColumns, edits: Flags) -> dict[Mode, Flags]:
    """Mode → the edits that its rule suspects."""
    fits = columns.fit[edits]
    fence = lower_fence(fits[~np.isnan(fits)].tolist())
    return {
        mode: edits & ((columns.modes >> place & 1) == 1)
        if mode in PER_EDIT
        else edits & (columns.fit < fence)
        for place, mode in enumerate(FAILURE_MODES)
    }
