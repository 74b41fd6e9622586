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
    """Return the number of items planned for each source: its controls, its edits, and the user's own."""
    operations = 0 if create.transforms is None else 1
    if not create.edits_captions:
        return operations
    edits = create.max_edits_per_image + create.lance_r_edits_per_image + len(create.interventions)
    return len(CONTROLS) + edits + operations


def most_items(create: StressTestCreate, plan: ConfirmationPlan) -> int:
    """Return the most items of a run of several stages: its screen, captions, and all that may follow."""
    return plan.screened * items_per_source(create) + plan.fresh + plan.budget
