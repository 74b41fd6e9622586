"""Every simulated rate with its limit, by the defect that it guards against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.random import Generator
from scipy import stats

from counterpose_core.types import Estimate

from .benchmarks import confounded, impact_coverage, slope_rates
from .intervals import beyond_placebo, mean_change, plain_share
from .nested_changes import false_among_shown
from .placebo_tests import any_lost_accuracy, changes_of_words, false_alarms, few_placebos, power
from .proofs import ANSWERS, false_proofs, proofs_of_a_loss
from .two_stages import any_without_bugs, bugs_found
from .verdicts import called_unfit, denied_harm, overstated, worst_change
from .world import Noise

Draw = Callable[[int, Generator], Estimate | tuple[Estimate, float]]
"""Simulates a rate, and for coverages the mean width of the intervals."""

_NOISES: tuple[Noise, ...] = ("sym", "asym")
_SURE = 1e-3

_ENOUGH_SLOPES = 24
"""Of so many slopes, a coverage of 0.93 leaves seven without the truth once in a thousand times."""


@dataclass(frozen=True)
class Cell:
    """One rate: how to simulate it, its limit, and whether the limit is an upper one.

    ``cost`` is the number of replicates that one of this cell stands for, as some take seconds each;
    ``least`` is the number without which the cell could hardly fail.
    """

    defect: str
    draw: Draw
    limit: float
    most: bool
    cost: int = 1
    least: int = 4

    def replicates(self, most: int, *, full: bool = False) -> int:
        """Return how many of ``most`` replicates this rate gets: fewer if one is costly, unless ``full``."""
        return max(self.least, most if full else most // self.cost)

    def simulate(
        self, most: int, generator: Generator, *, full: bool = False
    ) -> tuple[Estimate, float | None]:
        """Return the rate over its replicates, and the mean width of intervals."""
        found = self.draw(self.replicates(most, full=full), generator)
        return found if isinstance(found, tuple) else (found, None)

    def holds(self, rate: Estimate, cells: int = 1) -> bool:
        """Whether a rate is compatible with the limit: one-sided binomial, corrected over ``cells``."""
        side = "greater" if self.most else "less"
        count = round((rate.estimate or 0.0) * rate.n)
        return float(stats.binomtest(count, rate.n, self.limit, alternative=side).pvalue) > _SURE / cells


def alarms(defect: str, draw: Draw, limit: float = 0.05, cost: int = 1, least: int = 4) -> Cell:
    """A rate of false alarms."""
    return Cell(defect, draw, limit, most=True, cost=cost, least=least)


def covers(defect: str, draw: Draw, cost: int = 1, least: int = 4) -> Cell:
    """The coverage of a 95 % interval, of which 0.93 is the least."""
    return Cell(defect, draw, 0.93, most=False, cost=cost, least=least)


def _part(draw: Callable[[int, Generator], tuple[Any, ...]], index: int = 0) -> Draw:
    """One of several rates that a simulation gives."""

    def rate(replicates: int, generator: Generator) -> Estimate:
        found: Estimate = draw(replicates, generator)[index]
        return found

    return rate


def _slope_coverage(
    classes: int, images: int, models: int, spread: float, replicates: int, generator: Generator
) -> Estimate:
    return slope_rates(classes, images, models, spread, replicates, generator).coverage


def _misleading_slope(
    classes: int, images: int, models: int, spread: float, replicates: int, generator: Generator
) -> Estimate:
    return slope_rates(classes, images, models, spread, replicates, generator).misleading


def _called_confounded(cost: float, replicates: int, generator: Generator) -> Estimate:
    return confounded(8, 16, cost=cost, gap=0.0, replicates=replicates, generator=generator)["confounded"]


def _placebo_cells(noise: Noise) -> dict[str, Cell]:
    alone = ((1, 12), (1, 40), (5, 6), (5, 12), (5, 40), (5, 100), (5, 200))
    return {
        **{
            f"false alarms, {edits} edits a source, {noise}, {n} sources": alarms(
                "D2", partial(false_alarms, n, edits, noise)
            )
            for edits, n in alone
        },
        **{
            f"false alarms, blocks of 4, {noise}, {n} sources": alarms(
                "D10", partial(false_alarms, n, 5, noise, block=4)
            )
            for n in (40, 100, 200)
        },
        **{
            f"any of {classifiers} classifiers loses accuracy, {noise}, {n} sources": alarms(
                "D3", _part(partial(any_lost_accuracy, n, classifiers, noise)), cost=min(4, classifiers)
            )
            for classifiers, n in ((1, 48), (1, 200), (12, 160))
        },
        f"any of 4 classifiers gains accuracy, {noise}, 100 sources": alarms(
            "D12", _part(partial(any_lost_accuracy, 100, 4, noise), 1), cost=2
        ),
        f"power, {noise}, 48 sources, harm in 40 %": Cell(
            "D2", partial(power, 48, 5, noise), 0.5, most=False
        ),
    }


def _interval_cells(noise: Noise) -> dict[str, Cell]:
    single = ((1, 6), (1, 10), (1, 20), (1, 39), (1, 40), (1, 100), (5, 10), (5, 40))
    return {
        **{
            f"change of p, {edits} edits a source, {noise}, {n} sources": covers(
                "D6", partial(mean_change, n, edits, noise)
            )
            for edits, n in single
        },
        **{
            f"change of p, {noise}, {n} blocks of 4": covers(
                "D10", partial(mean_change, n, 5, noise, block=4)
            )
            for n in (10, 50)
        },
        **{
            f"beyond the placebo, {noise}, {n} planned sources": covers(
                "D6", partial(beyond_placebo, n, 5, noise)
            )
            for n in (10, 20, 48, 100)
        },
    }


def _benchmark_cells() -> dict[str, Cell]:
    zoos = ((8, 12, 12, 0.35), (8, 50, 12, 0.12), (20, 8, 60, 0.35))
    slopes = {
        f"slope, {classes} classes x {images} images, {models} models, sd {spread}": covers(
            "D9",
            partial(_slope_coverage, classes, images, models, spread),
            cost=2 if models < 60 else 10,
            least=_ENOUGH_SLOPES,
        )
        for classes, images, models, spread in zoos
    }
    flags = {
        f"called confounded, {name}": alarms("D8", partial(_called_confounded, cost), cost=2)
        for name, cost in (("real shift, no gap", 0.25), ("no shift, no gap", 0.0))
    }
    return {**slopes, **flags}


def _confirmation_cells() -> dict[str, Cell]:
    aims = {48: (0.35, 12), 96: (0.60, 25), 160: (0.65, 40), 400: (0.90, 100)}
    found = {
        f"bugs confirmed of {images} images in 8 classes": Cell(
            "6.6", partial(bugs_found, images), least, most=False, cost=cost
        )
        for images, (least, cost) in aims.items()
    }
    false = {
        f"any change confirmed of {images} images without bugs": alarms(
            "6.6", partial(any_without_bugs, images), cost=cost
        )
        for images, cost in ((48, 5), (160, 12))
    }
    return {**found, **false}


def _proof_cells() -> dict[str, Cell]:
    """Users who go on until a finding is proven."""
    false = {
        f"any false proof of 24 findings, each asked for up to 5 times, {answers}": alarms(
            "proofs", partial(false_proofs, answers)
        )
        for answers in ANSWERS
    }
    found = Cell("proofs", proofs_of_a_loss, 0.8, most=False)
    return {**false, "proofs of a loss in 60 % of the images, by at most 5 child runs of 20 images": found}


def _verdict_cells() -> dict[str, Cell]:
    return {
        "harm denied of changes that could not be tested, 20 groups of 3": alarms(
            "D4", partial(denied_harm, 20, 3), cost=2
        ),
        **{
            f"loss of the change ranked first by the screen, {noise}": covers(
                "D7", partial(worst_change, noise)
            )
            for noise in _NOISES
        },
        # A little over a half: a mean of skewed losses lies on either side of the truth, not equally often.
        **{
            f"stated loss of the change ranked first exceeds the true one, {noise}": alarms(
                "D7", partial(overstated, noise), limit=0.55
            )
            for noise in _NOISES
        },
        **{
            f"called unfit, controls change {share} % of {n} answers": alarms(
                "D11", partial(called_unfit, n, share / 100)
            )
            for share, n in ((1, 48), (6, 48), (6, 200))
        },
        "called unfit, controls change 30 % of 48 answers": Cell(
            "D11", partial(called_unfit, 48, 0.3), 0.9, most=False
        ),
        "false changes of words among those shown, covered ones left out": alarms(
            "D14", false_among_shown, limit=0.10, cost=4
        ),
        "slope stated without the truth, 8 classes x 12 images, 12 models, sd 0.12": alarms(
            "D9", partial(_misleading_slope, 8, 12, 12, 0.12), cost=2, least=_ENOUGH_SLOPES
        ),
        "impact, 8 classes x 10 blocks of 4 images, 12 models": covers(
            "D10", partial(impact_coverage, 8, 40, block=4), cost=4, least=_ENOUGH_SLOPES
        ),
    }


CELLS: Mapping[str, Cell] = {
    "few placebos of the own class": alarms("D1", partial(few_placebos, 20)),
    **_placebo_cells("sym"),
    **_placebo_cells("asym"),
    "false changes of words among those found, 6 of 60 groups hurt": alarms(
        "D15", _part(partial(changes_of_words, 60, 6), 1), limit=0.10, cost=4
    ),
    "any false change of words, no group hurts": alarms(
        "D15", _part(partial(changes_of_words, 60, 0)), limit=0.10, cost=4
    ),
    "planted changes found in groups of 3 to 24 sources": Cell(
        "D5", _part(partial(changes_of_words, 60, 6), 2), 0.4, most=False, cost=4
    ),
    **_interval_cells("sym"),
    **_interval_cells("asym"),
    **{
        f"share of right answers at 0.98, {n} images": covers("D13", partial(plain_share, n, 0.98))
        for n in (8, 10, 20, 39, 40, 100)
    },
    **_benchmark_cells(),
    **_proof_cells(),
    **_confirmation_cells(),
    # New cells come last: the place of a cell is a part of its seed.
    **_verdict_cells(),
}
