"""How many intervals that stand beside a verdict hold the rendered true loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from counterpose_core.types import Estimate
from evaluation.validity.measures import clustered_share

from .report import ClaimReport, Coverage, Omission


def coverage_of(claims: Sequence[ClaimReport], generator: np.random.Generator) -> Coverage:
    """Count the findings whose interval holds their true loss, of those that have both, by state."""
    judged = [(each, _holds(each)) for each in claims]
    compared = [(each, holds) for each, holds in judged if isinstance(holds, bool)]
    states = sorted({each.state for each, _ in compared})
    return Coverage(
        all=_share(compared, generator),
        by_state={
            state: _share((pair for pair in compared if pair[0].state == state), generator)
            for state in states
        },
        left_out=dict(sorted(Counter(why for _, why in judged if not isinstance(why, bool)).items())),
    )


def _share(compared: Iterable[tuple[ClaimReport, bool]], generator: np.random.Generator) -> Estimate:
    return clustered_share(((each.classifier, holds) for each, holds in compared), generator)


def _holds(claim: ClaimReport) -> bool | Omission:
    """Whether the interval of a finding holds the loss that it speaks of, or why nothing can be said."""
    if claim.state == "suspected":
        return "not-tested"
    if claim.conjunction:
        return "two-conditions"
    interval = claim.estimate
    if interval.low is None or interval.high is None:
        return "no-interval"
    true = (claim.true_on_class if claim.scope == "class" else claim.true_on_images).estimate
    return "no-truth" if true is None else interval.low <= true <= interval.high
