"""How many items a stress test has: its plan and whoever follows it count them alike."""

from __future__ import annotations

from counterpose_core.contract.confirmation import ConfirmationPlan
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.types import ItemKind

CONTROLS: tuple[ItemKind, ...] = ("reconstruction", "placebo")
"""The items of each source image in which nothing is changed."""

LAST_STAGE = 3
"""The stage after which no other comes: the screen, the look at what it chose, the rest."""


def items_per_source(create: StressTestCreate) -> int:
    """Return the most items of a source: those of its edits, one of operations, and another of severity."""
    operations = create.transforms
    adaptive = operations is not None and operations.severity == "adaptive"
    return edits_per_source(create) + (operations is not None) + adaptive


def edits_per_source(create: StressTestCreate) -> int:
    """Return the number of a source's controls, its edits, and the user's own; 0 of operations alone."""
    if not create.edits_captions:
        return 0
    edits = create.max_edits_per_image + create.lance_r_edits_per_image + len(create.interventions)
    return len(CONTROLS) + edits


def most_items(create: StressTestCreate, plan: ConfirmationPlan) -> int:
    """Return the most items of a run of several stages: its screen, captions, and all that may follow."""
    return plan.screened * edits_per_source(create) + plan.fresh + plan.budget + plan.operations
