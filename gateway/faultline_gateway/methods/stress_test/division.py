"""The division of a stress test's sources: those that the screen edits, and those kept for confirmation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faultline_core.contract.confirmation import ConfirmationPlan
from faultline_core.contract.datasets import Source
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.stress_test.screening import least_pairs
from faultline_gateway.methods.stress_test.items import items_per_source
from faultline_gateway.runs.seeds import derive_seed

LEAST_FRESH = 2 * least_pairs(1)
"""A class that would keep fewer sources is screened whole: five pairs are the least that can prove anything,
and gates and captions leave about half of the images for a change."""

MOST_FRESH = 100
"""Sources kept for a class: 25 pairs, of a change that a quarter of the images can show."""


@dataclass(frozen=True)
class Division:
    """The sources of the screen and the fresh ones, both in the order of the plan."""

    screened: Sequence[Source]
    fresh: Sequence[Source]
    plan: ConfirmationPlan | None


def divide(create: StressTestCreate, sources: Sequence[Source]) -> Division:
    """Keep ``confirm_share`` of each class's sources, drawn by the seed; the screen gets the rest.

    All sources of a group are on one side: groups are drawn, and a source without one counts as one. A class
    that would keep fewer than ``LEAST_FRESH`` is screened whole. Fresh sources beyond ``MOST_FRESH`` of a
    class have no items.
    """
    if not create.confirm:
        return Division(sources, (), None)
    reason = _one_stage(create, sources)
    kept = set() if reason else {source.id for source in _drawn(create, sources)}
    screened = [source for source in sources if source.id not in kept]
    fresh = _at_most(MOST_FRESH, [source for source in sources if source.id in kept])
    # A caption item makes no image, but it is an item: the run has no more of them than in one stage.
    budget = len(kept) * items_per_source(create) - len(fresh)
    plan = ConfirmationPlan(screened=len(screened), fresh=len(fresh), budget=budget, reason=reason)
    return Division(screened, fresh, plan)


def _one_stage(create: StressTestCreate, sources: Sequence[Source]) -> str | None:
    """Say why nothing can be confirmed, if nothing can."""
    if not create.tested_types:
        return "no edits are proposed: only the request's interventions are made"
    largest = max((len(units) for units in _by_class(sources).values()), default=0)
    if _n_kept(create, largest) >= LEAST_FRESH:
        return None
    needed = math.ceil(LEAST_FRESH / create.confirm_share)
    if any(source.group for source in sources):
        what = "group of images" if largest == 1 else "groups of images"
    else:
        what = "image" if largest == 1 else "images"
    return (
        f"the largest class has {largest} {what}, and a test on images that the screen does not use needs "
        f"{needed} of a class"
    )


def _n_kept(create: StressTestCreate, n: int) -> int:
    return math.floor(n * create.confirm_share + 1e-9)


def _by_class(sources: Sequence[Source]) -> dict[str, dict[str, list[Source]]]:
    """Class → group, or id of a source that stands alone → its sources."""
    classes: dict[str, dict[str, list[Source]]] = {}
    for source in sources:
        classes.setdefault(source.label, {}).setdefault(source.group or source.id, []).append(source)
    return classes


def _drawn(create: StressTestCreate, sources: Sequence[Source]) -> list[Source]:
    kept: list[Source] = []
    for units in _by_class(sources).values():
        number = _n_kept(create, len(units))
        if number >= LEAST_FRESH:
            kept += [source for unit in in_drawn_order(units, create.seed)[:number] for source in units[unit]]
    return kept


def in_drawn_order(units: Iterable[str], seed: int) -> list[str]:
    """Return ids of sources and names of groups in an order that the seed draws, whatever order they have."""
    return sorted(units, key=lambda unit: derive_seed(seed, unit, "fresh"))


def _at_most(most: int, fresh: Sequence[Source]) -> list[Source]:
    counts: dict[str, int] = {}
    taken: list[Source] = []
    for source in fresh:
        counts[source.label] = counts.get(source.label, 0) + 1
        if counts[source.label] <= most:
            taken.append(source)
    return taken
