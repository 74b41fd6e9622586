"""How many kept images changed more than was asked for, by kind of image."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from counterpose_core.contract.preservation import (
    FAULTS,
    OF_CONTROLS,
    OF_EDITS,
    OF_MOVEMENT,
    AnswersLost,
    Fault,
    PreservationRow,
    PreservationSummary,
)
from counterpose_core.statistics.coded import Flags
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.summaries.columns import NONE

MOST_EXAMPLES = 3

ROWS: Mapping[str, tuple[ItemKind, tuple[Fault, ...]]] = MappingProxyType(
    {
        "control": ("reconstruction", OF_CONTROLS),
        "placebo": ("placebo", tuple(fault for fault in OF_EDITS if fault != "ignored")),
        "edit": ("edit", OF_EDITS),
        "lance-r": ("lance-r", OF_EDITS),
        "own edit": ("intervention", OF_EDITS),
    }
)
"""Row of the summary → the kind of its items, and the faults that can be told of them."""


def summarize_preservation(columns: ItemColumns, estimator: LanceEstimator) -> PreservationSummary | None:
    """Count the faults of the screen's kept images, with intervals over sources; None without any."""
    kept = columns.screened & columns.done & columns.with_result
    rows = {
        name: _row(columns, kept & columns.of("kind", kind), name, faults, estimator)
        for name, (kind, faults) in ROWS.items()
    }
    measured = {name: row for name, row in rows.items() if row.measured}
    if not measured:
        return None
    edits = kept & columns.of("kind", "edit") & (columns.faults != NONE)
    return PreservationSummary(rows=measured, answers_lost=_answers_lost(columns, edits, estimator))


def _answers_lost(columns: ItemColumns, edits: Flags, estimator: LanceEstimator) -> dict[str, AnswersLost]:
    """Hold edits that moved against those without a fault; of either there must be some with an answer."""
    movement = sum(1 << FAULTS.index(fault) for fault in OF_MOVEMENT)
    groups = {"moved": columns.faults & movement > 0, "right": columns.faults == 0}
    lost = {}
    for name, answers in columns.answers.items():
        right_before = edits & answers.known & (answers.rank_before == 1)
        parts = {group: right_before & flags for group, flags in groups.items()}
        if all(part.any() for part in parts.values()):
            shares = {
                group: estimator.share_of(
                    f"preservation/lost/{group}/{name}", columns.unit[part], answers.rank_after[part] > 1
                )
                for group, part in parts.items()
            }
            lost[name] = AnswersLost(**shares)
    return lost


def _row(
    columns: ItemColumns,
    images: Flags,
    name: str,
    faults: tuple[Fault, ...],
    estimator: LanceEstimator,
) -> PreservationRow:
    measured = images & (columns.faults != NONE)
    bits, units = columns.faults[measured], columns.unit[measured]
    found = {fault: bits >> FAULTS.index(fault) & 1 == 1 for fault in faults}
    places = np.flatnonzero(measured)
    return PreservationRow(
        measured=total(measured),
        left_out=total(images) - total(measured),
        shares={
            fault: estimator.share_of(f"preservation/{name}/{fault}", units, flags)
            for fault, flags in found.items()
        },
        any_fault=estimator.share_of(f"preservation/{name}", units, bits > 0),
        example_items={
            fault: [columns.ids[at] for at in places[flags][:MOST_EXAMPLES].tolist()]
            for fault, flags in found.items()
            if flags.any()
        },
    )
