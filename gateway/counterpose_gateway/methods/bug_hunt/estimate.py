"""What a bug hunt would take and could find: its budget divided as a run would, and nothing drawn."""

from __future__ import annotations

import asyncio

from counterpose_core.bug_hunt.budget import findable_rate, share
from counterpose_core.bug_hunt.comparison import POWER, detectable_rate
from counterpose_core.bug_hunt.pairs import detectable_by_pairs
from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate
from counterpose_core.contract.bug_hunts import BugHuntCreate, HuntShares
from counterpose_core.contract.runs import Run
from counterpose_core.contract.sampling_rules import FixedNumber
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import Suite
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.earlier_rates import EARLIER_RUNS, minutes_of, seconds_per_item
from counterpose_gateway.runs.submission import require_quota


async def estimate(create: BugHuntCreate, context: RunContext) -> BugHuntEstimate:
    """Divide the budget as a run would, and say the smallest rates that can be found and proven.

    Raises:
        InvalidRequest: the budget of images is too small.
        QuotaExceeded: it might have more items than a run may.
    """
    shares = shares_of(create, context.suite)
    captions = most_captions(create, shares.varied)
    require_quota(create.budget.images + captions, context, "/budget/images")
    earlier = await asyncio.to_thread(context.ledger.runs.page, kind="bug-hunt", limit=EARLIER_RUNS)
    seconds = seconds_per_item(earlier.runs, lambda run: _is_alike(run, create))
    figures = minutes_of(create.budget.images + captions, seconds)
    images, reason = _images_in_time(create, figures["minutes"], captions), None
    found: HuntShares | None = shares
    if images is not None and images < create.budget.images:
        try:
            found = shares_of(create, context.suite, images)
        except InvalidRequest as error:
            found, reason = None, f"its minutes allow {images} images, and {error.detail}"
    provable = None if found is None else await asyncio.to_thread(provable_rate, create, found.held_out)
    if found is not None and provable is None:
        reason = f"{found.held_out} held-out images prove no failure rate"
    return BugHuntEstimate(
        images=create.budget.images,
        captions=captions,
        **figures,
        images_in_time=images,
        shares=found,
        tests=most_tests(create),
        power=POWER,
        findable=None if found is None else findable_rate(found.baseline),
        provable=provable,
        reason=reason,
    )


def shares_of(create: BugHuntCreate, suite: Suite, images: int | None = None) -> HuntShares:
    """Return how the budget, or so many images, is spent on each label.

    Descriptions of the user's own have held-out images alone.

    Raises:
        InvalidRequest: it is too small.
    """
    most = create.budget.images if images is None else images
    mixture = 0 if create.mixture is None else create.mixture.images
    if create.descriptions:
        least = (len(create.descriptions) + 1) * create.held_out + mixture
        if most < least:
            mixed = f" and the mixture {mixture}" if mixture else ""
            raise InvalidRequest(
                f"a budget of {most} images is too small: {len(create.descriptions)} descriptions and a "
                f"label alone have {create.held_out} held-out images each{mixed}; allow {least}, or lower "
                "held_out",
                pointer="/budget/images",
            )
        return HuntShares(baseline=0, hypotheses=0, held_out=create.held_out, mixture=mixture)
    found = share(
        most,
        len(create.labels),
        hypotheses=create.hypotheses,
        winners=create.winners,
        held_out=create.held_out,
        refine=create.refine,
        # Without a language model there is nobody to edit captions.
        vary=create.vary if "perturber" in suite.services else 0.0,
        mixture=mixture,
    )
    return HuntShares.model_validate(vars(found))


def most_captions(create: BugHuntCreate, varied: int) -> int:
    """Return the most captions that are written, and the clusters and combinations of their sentences."""
    mentions = min(create.mentions, create.held_out) * len(create.labels)
    if create.descriptions:
        return mentions
    kinds = {"frequency": 2, "likelihood": 1, "both": 3}[create.words]
    # A cluster has a caption at least, so that there are no more combinations than captions of failures.
    combinations = 0 if create.words == "frequency" else 1 if create.clusters == "none" else create.captions
    each = kinds * create.captions + combinations + int(create.clusters == "features")
    # Of the label alone and of edited captions, and those that are edited.
    rounds = 2 if varied else 1
    return rounds * each * len(create.labels) * max(1, len(create.classifiers)) + varied + mentions


def most_tests(create: BugHuntCreate) -> int:
    """Return the most descriptions that are tested together."""
    own = len(create.descriptions) * max(1, len(create.classifiers))
    return own or min(create.winners, create.hypotheses) * len(create.labels)


def provable_rate(create: BugHuntCreate, held_out: int) -> float | None:
    """Return the smallest failure rate that held-out images prove where the label alone never fails."""
    if isinstance(create.sampling, FixedNumber):
        return detectable_rate(0.0, held_out, most_tests(create))
    return detectable_by_pairs(held_out, most_tests(create))


def _is_alike(run: Run, create: BugHuntCreate) -> bool:
    """Whether a hunt was drawn as this one would be."""
    earlier = run.resolved_config.get("request", {})
    return all(earlier.get(name) == getattr(create, name) for name in ("steps", "guidance", "scheduler"))


def _images_in_time(create: BugHuntCreate, minutes: float | None, captions: int) -> int | None:
    if create.budget.minutes is None or minutes is None or minutes <= 0.0:
        return None
    items = create.budget.images + captions
    return max(0, int(items * create.budget.minutes / minutes) - captions)
