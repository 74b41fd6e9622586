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
    OF_REGIONS,
    AnswersLost,
    Fault,
    PreservationRow,
    PreservationSummary,
)
from counterpose_core.statistics.coded import Flags, Ints
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.columns.part import WITH_REGION
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.summaries.columns import NONE, hit

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
    # Of an image in "right", every fault can be told.
    groups = {"moved": columns.faults & movement > 0, "right": columns.faults & ~WITH_REGION == 0}
    lost = {}
    for name, answers in columns.answers.items():
        right_before = edits & answers.known & hit(answers.hits_before)
        parts = {group: right_before & flags for group, flags in groups.items()}
        if all(part.any() for part in parts.values()):
            shares = {
                group: estimator.share_of(
                    f"preservation/lost/{group}/{name}", columns.unit[part], ~hit(answers.hits_after[part])
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
    measured = np.flatnonzero(images & (columns.faults != NONE))
    bits, units = columns.faults[measured], columns.unit[measured]
    if name != "control" and len(bits) and bool((bits & WITH_REGION).all()):
        faults = (*faults, *OF_REGIONS)
    has = {fault: _bit(bits, FAULTS.index(fault)) for fault in faults}
    told = {fault: ~_bit(bits, len(FAULTS) + FAULTS.index(fault)) for fault in faults}
    faulty = np.any(list(has.values()), axis=0)
    decided = faulty | np.all(list(told.values()), axis=0)
    return PreservationRow(
        measured=len(measured),
        left_out=total(images) - len(measured),
        shares={
            fault: estimator.share_of(f"preservation/{name}/{fault}", units[known], has[fault][known])
            for fault, known in told.items()
            if known.any()
        },
        unmeasured={fault: total(~known) for fault, known in told.items() if not known.all()},
        any_fault=estimator.share_of(f"preservation/{name}", units[decided], faulty[decided]),
        example_items={
            fault: [columns.ids[at] for at in measured[flags][:MOST_EXAMPLES].tolist()]
            for fault, flags in has.items()
            if flags.any()
        },
    )


def _bit(bits: Ints, place: int) -> Flags:
    return np.asarray(bits >> place & 1 == 1)
