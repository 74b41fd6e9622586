"""The figures of a validation of hunts, and the aims that they are held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import scipy

from counterpose_core.statistics.bootstrap import bootstrap_mean, proportion
from counterpose_core.types import Estimate
from evaluation.validity.aims import at_least
from evaluation.validity.report import Aim

from .report import BugReport, ClaimReport, HuntFigures, HuntReport

STRONG = 0.3
RECALL, PRECISION, COVERED, LEVEL = 0.85, 0.9, 0.9, 0.05
EFFECT = 0.1
"""By how much a true finding fails more often on a user's scenes than the label as the generator draws it."""
_STREAM = 0xF16
_NODES = 61
"""Of Gauss and Hermite's rule for the error."""


def figures_of(
    bugs: Sequence[BugReport], claims: Sequence[ClaimReport], hunts: Sequence[HuntReport], controls: set[str]
) -> HuntFigures:
    """Count over all hunts that were done; ``controls`` are the names of classifiers without a bug."""
    strong = [bug for bug in bugs if (bug.true_rate.estimate or 0.0) >= STRONG]
    found = [bug for bug in bugs if bug.fate == "found"]
    of_controls = [hunt for hunt in hunts if hunt.classifier in controls]
    false = {(claim.classifier, claim.label) for claim in claims if not claim.is_true}
    named = [claim for claim in claims if claim.names_bug]
    return HuntFigures(
        recall_of_strong=_share([bug.fate == "found" for bug in strong]),
        recall=_share([bug.fate == "found" for bug in bugs]),
        alone=_share([bool(bug.alone) for bug in found]),
        precision=_share([claim.is_true for claim in claims]),
        surely_above=_share([claim.surely_above for claim in claims]),
        control_hunts_with_a_finding=_share([hunt.findings > 0 for hunt in of_controls]),
        control_hunts_with_a_false_finding=_share(
            [(hunt.classifier, hunt.label) in false for hunt in of_controls]
        ),
        covered=_share([claim.covered for claim in named]),
        words_covered=_share([claim.words_covered for claim in named]),
        user_covered=_share([claim.user_covered for claim in claims if claim.user_covered is not None]),
        drawn_covered=_share([claim.drawn_covered for claim in claims if claim.drawn_covered is not None]),
        at_least_holds=_share(
            [
                (claim.user_rate.estimate or 0.0) >= claim.at_least
                for claim in claims
                if claim.user_rate is not None and claim.at_least is not None
            ]
        ),
        generator_gap=generator_gap(
            [(claim.held_out, claim.user_rate) for claim in claims if claim.user_rate is not None]
        ),
        difference=_mean([claim.difference for claim in named], 1),
        winners_curse=_mean(
            [
                claim.discovery.estimate - claim.held_out.estimate
                for claim in claims
                if claim.discovery.estimate is not None and claim.held_out.estimate is not None
            ],
            2,
        ),
    )


def by_attribute(bugs: Sequence[BugReport]) -> dict[str, Estimate]:
    """Recall of strong bugs by the kind of their circumstance."""
    groups: dict[str, list[bool]] = {}
    for bug in bugs:
        if (bug.true_rate.estimate or 0.0) >= STRONG:
            groups.setdefault(bug.attribute, []).append(bug.fate == "found")
    return {name: _share(hits) for name, hits in sorted(groups.items())}


def fates_of(bugs: Sequence[BugReport]) -> dict[str, int]:
    """What became of the strong bugs, the most frequent first."""
    strong = (bug.fate for bug in bugs if (bug.true_rate.estimate or 0.0) >= STRONG)
    return dict(Counter(strong).most_common())


def aims_of(figures: HuntFigures) -> list[Aim]:
    """Hold the figures against their targets."""
    alarms = figures.control_hunts_with_a_finding
    return [
        at_least(f"recall of bugs with a true rate of {STRONG:g} or more", figures.recall_of_strong, RECALL),
        at_least("precision of findings that break", figures.precision, PRECISION),
        Aim(
            name="control hunts with a finding",
            aim=f"lower bound <= {LEVEL:g}",
            reached=alarms,
            met=None if alarms.low is None else alarms.low <= LEVEL,
        ),
        at_least("held-out intervals with the rate of further images", figures.drawn_covered, COVERED),
        at_least("rates that users' scenes surely reach, and do", figures.at_least_holds, COVERED),
    ]  # fmt: skip


def exceeds(rate: Estimate, other: Estimate, by: float) -> bool:
    """Whether the whole interval of a rate lies above that of another one, by more than so much."""
    return (rate.low or 0.0) - (1.0 if other.high is None else other.high) > by


def generator_gap(pairs: Sequence[tuple[Estimate, Estimate]]) -> float | None:
    """Return the standard deviation of the log-odds by which rates of the first kind miss the second.

    By maximum likelihood: failures of the first are binomial at the odds of the second times a log-normal
    error, so that sampling is no gap. The second count many scenes. None of fewer than two pairs.
    """
    if len(pairs) < 2:
        return None
    n = np.array([first.n for first, _ in pairs])[:, None]
    failures = np.array([round((first.estimate or 0.0) * first.n) for first, _ in pairs])[:, None]
    # Half a failure and half a success more: a rate of 0 or 1 has no odds.
    known = np.array([((each.estimate or 0.0) * each.n + 0.5) / (each.n + 1) for _, each in pairs])[:, None]
    errors, weights = np.polynomial.hermite_e.hermegauss(_NODES)

    def loss(gap: float) -> float:
        rates = scipy.special.expit(scipy.special.logit(known) + gap * errors)
        likelihoods = (scipy.stats.binom.pmf(failures, n, rates) * weights).sum(axis=1)
        return -float(np.log(np.maximum(likelihoods, np.finfo(float).tiny)).sum())

    return float(scipy.optimize.minimize_scalar(loss, bounds=(0.0, 5.0), method="bounded").x)


def _share(hits: Sequence[bool]) -> Estimate:
    return proportion(sum(hits), len(hits))


def _mean(values: Sequence[float], stream: int) -> Estimate:
    if len(values) < 2:
        return Estimate(estimate=None, low=None, high=None, n=len(values))
    return bootstrap_mean(list(values), np.random.default_rng([_STREAM, stream]))
