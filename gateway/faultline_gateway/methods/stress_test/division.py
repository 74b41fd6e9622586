"""The division of a stress test's sources: those that the screen edits, and those kept for confirmation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from faultline_core.contract.confirmation import ConfirmationPlan
from faultline_core.contract.datasets import Source
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.stress_test.screening import least_pairs
from faultline_gateway.methods.stress_test.items import items_per_source
from faultline_gateway.runs.seeds import derive_seed

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

LEAST_BUDGET = 4 * least_pairs(1)
"""Items without which no change can be tested: five pairs, of which a gate may take half."""

MOST_FRESH = 100
"""Sources kept for a class: 25 pairs, of a change that a quarter of the images can show."""


@dataclass(frozen=True)
class Division:
    """The sources of the screen and the fresh ones, both in the order of the plan."""

    screened: Sequence[Source]
    fresh: Sequence[Source]
    plan: ConfirmationPlan | None


def divide(create: StressTestCreate, sources: Sequence[Source], *, redraws: bool = False) -> Division:
    """Keep ``confirm_share`` of each class's sources, drawn by the seed; the screen gets the rest.

    All sources of a group are on one side: groups are drawn, and a source without one counts as one. A class
    that would keep fewer than ``LEAST_FRESH`` is screened whole. If the run ``redraws``, a class that would
    keep fewer than ``PLENTY`` keeps half at most. Fresh sources beyond ``MOST_FRESH`` of a class have no
    items.
    """
    if not create.confirm:
        return Division(sources, (), None)
    kept = {source.id for source in _drawn(create, sources, redraws=redraws)}
    fresh = _at_most(MOST_FRESH, [source for source in sources if source.id in kept])
    # A caption item makes no image, but it is an item: the run has no more of them than in one stage.
    budget = len(kept) * items_per_source(create) - len(fresh)
    reason = _one_stage(create, sources, budget, redraws=redraws)
    if reason is not None:
        plan = ConfirmationPlan(screened=len(sources), fresh=0, budget=0, reason=reason)
        return Division(sources, (), plan)
    screened = [source for source in sources if source.id not in kept]
    plan = ConfirmationPlan(screened=len(screened), fresh=len(fresh), budget=budget)
    return Division(screened, fresh, plan)


def _one_stage(
    create: StressTestCreate, sources: Sequence[Source], budget: int, *, redraws: bool
) -> str | None:
    """Say why nothing can be confirmed, if nothing can."""
    if not create.tested_types:
        return "no edits are proposed: only the request's interventions are made"
    largest = max((len(units) for units in by_class(sources).values()), default=0)
    if not _n_kept(create, largest, redraws=redraws):
        return _too_small(create, f"{largest} {_units(largest, sources)}", redraws=redraws)
    if budget < LEAST_BUDGET:
        return (
            f"the images that the screen does not use leave {budget} items, and a test needs {LEAST_BUDGET}; "
            "add images"
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


def _units(number: int, sources: Sequence[Source]) -> str:
    if any(source.group for source in sources):
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


def _drawn(create: StressTestCreate, sources: Sequence[Source], *, redraws: bool) -> list[Source]:
    kept: list[Source] = []
    for units in by_class(sources).values():
        number = _n_kept(create, len(units), redraws=redraws)
        kept += [source for unit in in_drawn_order(units, create.seed)[:number] for source in units[unit]]
    return kept


def in_drawn_order(units: Iterable[str], seed: int) -> list[str]:
    """Return ids of sources and names of groups in an order that the seed draws, whatever order they have."""
    return sorted(units, key=lambda unit: derive_seed(seed, unit, "fresh"))


def _at_most(most: int, fresh: Sequence[Source]) -> list[Source]:
    """At most so many of each class, in order; of groups each in turn, so that no large one takes all."""
    taken: set[str] = set()
    for units in by_class(fresh).values():
        turns = zip_longest(*units.values())
        in_turn = [source.id for turn in turns for source in turn if source is not None]
        taken.update(in_turn[:most])
    return [source for source in fresh if source.id in taken]
