"""The division of a stress test's sources: those that the screen edits, and those kept for confirmation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.confirmation import ConfirmationPlan
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.stress_test.item_counts import edits_per_source
from counterpose_core.stress_test.screening import least_pairs
from counterpose_gateway.records.source_table import SourceTable, places_within
from counterpose_gateway.runs.seeds import derive_seed

LEAST_FRESH = 2 * least_pairs(1)
"""Sources kept for a class that can give enough fresh pairs: five pairs are the least that can prove
anything, and gates and captions leave about half of the images for a change."""

PLENTY = 30
"""Sources kept for a class from which on images are not drawn again as a rule: twice the pairs that a change
needs, of one that half of the images can show."""

LEAST_REDRAWN_CLASS = 4
"""Images of a class that is divided if images can be drawn again: a finding takes several images to which
the change applies. A smaller class is screened whole."""

MOST_REDRAWN_SHARE = 0.5
"""Share of such a class that is kept at most: the screened images can be drawn again too, so that it is
items, and not images, that are kept."""

LEAST_TEST_BUDGET = 4 * least_pairs(1)
"""Items without which no change can be tested: five pairs, of which a gate may take half."""

MOST_FRESH = 100
"""Sources kept for a class: 25 pairs, of a change that a quarter of the images can show."""


@dataclass(frozen=True)
class Division:
    """The sources of the screen and the fresh ones, both in the order of the plan."""

    screened: SourceTable
    fresh: SourceTable
    plan: ConfirmationPlan | None


def divide(create: StressTestCreate, sources: SourceTable, *, redraws: bool = False) -> Division:
    """Keep ``confirm_share`` of each class's sources, drawn by the seed; the screen gets the rest.

    All sources of a group are on one side: groups are drawn, and a source without one counts as one. A class
    that would keep fewer than ``LEAST_FRESH`` is screened whole. If the run ``redraws``, a class that would
    keep fewer than ``PLENTY`` keeps half at most. Fresh sources beyond ``MOST_FRESH`` of a class have no
    items.
    """
    none = sources.take(_NONE)
    if not create.confirm:
        return Division(sources, none, None)
    kept = _drawn(create, sources, redraws=redraws)
    fresh = _at_most(MOST_FRESH, sources.take(np.flatnonzero(kept)))
    # A caption item makes no image, but it is an item: the run has no more of them than in one stage.
    budget = int(kept.sum()) * edits_per_source(create) - len(fresh)
    reason = _one_stage(create, sources, budget, redraws=redraws)
    operations = 0 if create.transforms is None else len(sources)
    if reason is not None:
        plan = ConfirmationPlan(
            screened=len(sources), fresh=0, budget=0, reason=reason, operations=operations
        )
        return Division(sources, none, plan)
    screened = sources.take(np.flatnonzero(~kept))
    plan = ConfirmationPlan(screened=len(screened), fresh=len(fresh), budget=budget, operations=operations)
    return Division(screened, fresh, plan)


def _one_stage(create: StressTestCreate, sources: SourceTable, budget: int, *, redraws: bool) -> str | None:
    """Say why nothing can be confirmed, if nothing can."""
    if not create.tested_types:
        return "no edits are proposed: only the request's interventions are made"
    largest = max(sources.units_by_label().values(), default=0)
    if not _n_kept(create, largest, redraws=redraws):
        return _too_small(create, f"{largest} {_units(largest, sources)}", redraws=redraws)
    if budget < LEAST_TEST_BUDGET:
        return (
            f"the images that the screen does not use leave {budget} items, and a test needs "
            f"{LEAST_TEST_BUDGET}; add images"
        )
    return None


def _too_small(create: StressTestCreate, largest: str, *, redraws: bool) -> str:
    if redraws:
        return (
            f"the largest class has {largest}, and even if images are drawn again, a test needs "
            f"{LEAST_REDRAWN_CLASS} of a class"
        )
    needed = math.ceil(LEAST_FRESH / create.confirm_share)
    return (
        f"the largest class has {largest}, and a test on images that the screen does not use needs "
        f"{needed} of a class, as the suite has no editor settings that draw an image again"
    )


def _units(number: int, sources: SourceTable) -> str:
    if (sources.groups >= 0).any():
        return "group of images" if number == 1 else "groups of images"
    return "image" if number == 1 else "images"


def _n_kept(create: StressTestCreate, n: int, *, redraws: bool) -> int:
    """The number of units that a class of ``n`` keeps: groups, and sources that stand alone."""
    fresh = math.floor(n * create.confirm_share + 1e-9)
    if fresh >= (PLENTY if redraws else LEAST_FRESH):
        return fresh
    if not redraws or n < LEAST_REDRAWN_CLASS:
        return 0
    return math.floor(n * min(create.confirm_share, MOST_REDRAWN_SHARE) + 1e-9)


def by_class(sources: Iterable[Source]) -> dict[str, dict[str, list[Source]]]:
    """Class → group, or id of a source that stands alone → its sources."""
    classes: dict[str, dict[str, list[Source]]] = {}
    for source in sources:
        classes.setdefault(source.label, {}).setdefault(source.group or source.id, []).append(source)
    return classes


def _drawn(create: StressTestCreate, sources: SourceTable, *, redraws: bool) -> NDArray[np.bool_]:
    """Return whether each source is kept."""
    units = sources.units()
    _, first = np.unique(units, return_index=True)
    labels = sources.own_labels()[first]
    seeds = np.array(
        [_place(create.seed, sources.group(one) or sources.id(one)) for one in first.tolist()], dtype=np.int64
    )
    drawn = np.zeros(len(first), dtype=bool)
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        number = _n_kept(create, len(of_class), redraws=redraws)
        drawn[of_class[np.argsort(seeds[of_class], kind="stable")[:number]]] = True
    return drawn[units]


def in_drawn_order(units: Iterable[str], seed: int) -> list[str]:
    """Return ids of sources and names of groups in an order that the seed draws, whatever order they have."""
    return sorted(units, key=lambda unit: _place(seed, unit))


def _place(seed: int, unit: str) -> int:
    return derive_seed(seed, unit, "fresh")


def _at_most(most: int, fresh: SourceTable) -> SourceTable:
    """At most so many of each class, in order; of groups each in turn, so that no large one takes all."""
    units, labels = fresh.units(), fresh.own_labels()
    turn = places_within(units)
    taken = np.zeros(len(fresh), dtype=bool)
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        taken[of_class[np.lexsort((units[of_class], turn[of_class]))[:most]]] = True
    return fresh.take(np.flatnonzero(taken))


_NONE = np.array([], dtype=np.intp)
