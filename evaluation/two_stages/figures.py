"""The figures of runs of one size, or of all, each with n and interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate
from evaluation.validity.aims import at_least, at_most
from evaluation.validity.measures import UNKNOWN, clustered_share, resampled, share
from evaluation.validity.report import Aim

from .coverage import coverage_of
from .report import (
    ChanceReport,
    ClaimReport,
    ControlReport,
    Fate,
    RunReport,
    StageFigures,
    Stages,
)
from .stretch import SIZES

RECALL = dict(zip(SIZES, (0.4, 0.6, 0.65, 0.9), strict=True))
PRECISION, BIAS, LEVEL = 0.95, 0.02, 0.05
ALL = "all"


@dataclass(frozen=True)
class Counted:
    """Everything that figures count."""

    runs: Sequence[RunReport]
    claims: Sequence[ClaimReport]
    chances: Sequence[ChanceReport]
    controls: Sequence[ControlReport]

    def __add__(self, more: Counted) -> Counted:
        return Counted(
            [*self.runs, *more.runs],
            [*self.claims, *more.claims],
            [*self.chances, *more.chances],
            [*self.controls, *more.controls],
        )

    def of(self, stages: Stages, size: int | None = None) -> Counted:
        """The part of some runs; no size is all of them."""

        def held(one: RunReport | ClaimReport | ChanceReport | ControlReport) -> bool:
            return one.stages == stages and size in (None, one.size)

        return Counted(
            [one for one in self.runs if held(one)],
            [one for one in self.claims if held(one)],
            [one for one in self.chances if held(one)],
            [one for one in self.controls if held(one)],
        )

    def of_scope(self, scope: str) -> Counted:
        """The same runs with the claims of one scope only."""
        kept = [one for one in self.claims if one.scope == scope]
        return Counted(self.runs, kept, self.chances, self.controls)


def figures_of(counted: Counted, generator: np.random.Generator) -> StageFigures:
    """Count the figures of some runs."""
    broken = [one for one in counted.claims if one.state == "breaks"]
    suspected = [one for one in counted.claims if one.state == "suspected"]
    fates = Counter(one.fate for one in counted.chances)
    # Children of it: the figures of before draw what they drew.
    words_generator, cost_generator, recall_generator, coverage_generator = generator.spawn(4)
    return StageFigures(
        runs=len(counted.runs),
        recall=clustered_share(((one.classifier, one.fate == "found") for one in counted.chances), generator),
        recall_by_words=clustered_share(
            ((one.classifier, _is_named_truly(one, broken)) for one in counted.chances), recall_generator
        ),
        fates={fate: fates[fate] for fate in get_args(Fate) if fates[fate]},
        precision=_of_verdict(broken, "true", generator),
        precision_by_words=clustered_share(
            (
                (one.classifier, one.verdict_by_words == "true")
                for one in broken
                if one.verdict_by_words is not None
            ),
            words_generator,
        ),
        false_alarms=_of_verdict(broken, "false-alarm", generator),
        controls_with_a_finding=share([one.breaks > 0 for one in counted.controls]),
        controls_with_a_false_alarm=share([one.false_alarms > 0 for one in counted.controls]),
        suspected_true=suspicions_true(suspected, generator),
        suspected_false=_of_verdict(suspected, "false-alarm", generator),
        bias=_bias(((one.estimate, one.true_on_images) for one in broken), generator),
        bias_on_class=_bias(((one.estimate, one.true_on_class) for one in broken), generator),
        evaluations_per_proof=_evaluations_per_proof(counted, cost_generator),
        coverage=coverage_of(counted.claims, coverage_generator),
    )


def _is_named_truly(chance: ChanceReport, broken: Sequence[ClaimReport]) -> bool:
    """Whether a finding of the bug's run names it, and is true of its words."""
    bug = f"{chance.classifier}/{chance.bug}"
    return any(
        _run_of(one) == _run_of(chance)
        and one.verdict_by_words == "true"
        # A claim's bugs end with the seed of their stretch.
        and bug in (name.rpartition("@")[0] for name in one.bugs)
        for one in broken
    )


def _evaluations_per_proof(counted: Counted, generator: np.random.Generator) -> Estimate:
    """The evaluations of runs with a planted bug for each true finding that breaks; n counts findings.

    The interval resamples runs, and is never narrower than that of as many independent findings (Poisson).
    """
    runs = [run for run in counted.runs if any(_run_of(one) == _run_of(run) for one in counted.chances)]
    true = [one for one in counted.claims if (one.state, one.verdict) == ("breaks", "true")]
    proven = np.array([sum(_run_of(one) == _run_of(run) for one in true) for run in runs])
    evaluations = np.array([run.evaluations for run in runs])

    def per_proof(rows: NDArray[np.intp]) -> float | None:
        found = proven[rows].sum()
        return float(evaluations[rows].sum() / found) if found else None

    n = int(proven.sum())
    if not n:
        return UNKNOWN
    measured = resampled(per_proof, [str(place) for place in range(len(runs))], generator)
    most, least = stats.chi2.ppf([0.975, 0.025], [2 * n + 2, 2 * n]) / 2
    ends = [evaluations.sum() / most, evaluations.sum() / least]
    ends += [end for end in (measured.low, measured.high) if end is not None]
    return Estimate(estimate=evaluations.sum() / n, low=min(ends), high=max(ends), n=n)


def _run_of(one: RunReport | ClaimReport | ChanceReport) -> tuple[str, int, int, Stages]:
    return one.roster, one.size, one.part, one.stages


def suspicions_true(claims: Iterable[ClaimReport], generator: np.random.Generator) -> Estimate:
    """The share of suspicions that are true."""
    return _of_verdict([one for one in claims if one.state == "suspected"], "true", generator)


def _of_verdict(claims: Sequence[ClaimReport], verdict: str, generator: np.random.Generator) -> Estimate:
    return clustered_share(((one.classifier, one.verdict == verdict) for one in claims), generator)


def _bias(pairs: Iterable[tuple[Estimate, Estimate]], generator: np.random.Generator) -> Estimate:
    """The mean of estimated less true losses; n counts findings."""
    errors = [
        estimated.estimate - true.estimate
        for estimated, true in pairs
        if estimated.estimate is not None and true.estimate is not None
    ]
    return bootstrap_mean(errors, generator) if errors else UNKNOWN


def aims_of(counted: Counted, generator: np.random.Generator) -> list[Aim]:
    """The targets of two stages: recall by size, precision, bias, and controls within the stated level.

    Findings must be true of their words, which a user reads, and of their edits, which were tested.
    """
    sizes = sorted({run.size for run in counted.runs})
    recalls = [
        at_least(
            f"recall at {size} images",
            figures_of(counted.of("two", size), generator).recall,
            RECALL.get(size, 0.0),
        )
        for size in sizes
    ]
    found = figures_of(counted.of("two"), generator)
    alarmed = found.controls_with_a_finding
    return [
        *recalls,
        at_least(
            "precision of findings that break, by their words",
            found.precision_by_words or UNKNOWN,
            PRECISION,
        ),
        at_least("precision of findings that break", found.precision, PRECISION),
        _small("bias of confirmed losses on their images", found.bias),
        # A rate at its level lies above it in half of all measurements: the interval decides.
        at_most("controls with a finding", alarmed, LEVEL).model_copy(
            update={
                "aim": f"lower bound <= {LEVEL:g}",
                "met": None if alarmed.low is None else alarmed.low <= LEVEL,
            }
        ),
    ]


def _small(name: str, reached: Estimate) -> Aim:
    met = None if reached.estimate is None else abs(reached.estimate) <= BIAS
    return Aim(name=name, aim=f"within {BIAS:g} of 0", reached=reached, met=met)
