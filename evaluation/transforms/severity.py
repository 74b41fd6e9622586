"""Hold the figures of severity against populations whose truth is known.

    python -m evaluation.transforms.severity [--runs 2000] [--seed 20386] [--out FILE]

Draws images with a failure point each, of which some do not follow the order of levels, plans them as a run
with ``severity=adaptive`` does, and counts how often each 95 % interval holds the truth (accuracy, loss and
failed share at each level, the level at which 10 points are lost), what bisection costs beside a full grid,
at what width of the accuracy's intervals, how often an operation is run in full, and how often a rank that is
not true is claimed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from counterpose_core.stress_test.severity.curves import LevelAnswers, loss_level, monotonicity
from counterpose_core.stress_test.severity.draw import claimed_level, full_share
from counterpose_core.stress_test.severity.failure_points import next_level
from counterpose_core.stress_test.severity.ranks import ranks_by_level
from counterpose_core.types import Estimate
from evaluation.paths import RESULTS

LEVELS = (1, 2, 3, 4, 5)
LOSS = 0.1
TESTS = 20
"""Operations of the run, over which the level of a claim looks ahead to be corrected."""
SEED = 20_386
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Population:
    """How images are drawn: how many are right at level 0, where these fail, and how many come back.

    ``points`` are the shares of the failure points 1 to 5 among images that are right; the rest never fails.
    Of those that fail, the share ``back`` is right again at each later level by a coin; of those that are
    wrong at level 0, the share ``gains`` is right at each level by a coin. Of the ``size`` images of a group,
    seven of ten do as its first.
    """

    right: float
    points: tuple[float, ...]
    back: float = 0.0
    gains: float = 0.0
    size: int = 1

    def draw(self, images: int, generator: np.random.Generator) -> tuple[Flags, Flags, npt.NDArray[np.intp]]:
        """Return which images are right at level 0 (n,), at each level (n, 5), and their groups (n,)."""
        groups = np.arange(images) // self.size
        own = np.arange(images)
        alike = generator.random(images) < 0.7
        source = np.where(alike, groups * self.size, own)
        before = (generator.random(images) < self.right)[source]
        odds = (*self.points, 1.0 - sum(self.points))
        place = generator.choice(len(odds), size=images, p=odds)[source]
        right = before[:, None] & (np.arange(5)[None, :] < place[:, None])
        coins = generator.random((images, 5)) < 0.5
        back = (generator.random(images) < self.back)[:, None] & (np.arange(5)[None, :] > place[:, None])
        gains = ~before & (generator.random(images) < self.gains)
        right = right | (before[:, None] & back & coins) | (gains[:, None] & coins)
        return before, right, groups


POPULATIONS = {
    "robust": Population(0.85, (0.01, 0.01, 0.02, 0.03, 0.05)),
    "steady": Population(0.8, (0.05, 0.08, 0.1, 0.12, 0.15)),
    "fragile": Population(0.9, (0.3, 0.25, 0.2, 0.1, 0.05)),
    "cliff": Population(0.9, (0.0, 0.0, 0.6, 0.0, 0.0)),
    "hardly back": Population(0.8, (0.05, 0.08, 0.1, 0.12, 0.15), back=0.01, gains=0.03),
    "some back": Population(0.8, (0.05, 0.08, 0.1, 0.12, 0.15), back=0.05, gains=0.1),
    "many back": Population(0.8, (0.1, 0.15, 0.15, 0.1, 0.1), back=0.4, gains=0.3),
    "groups of 3": Population(0.8, (0.05, 0.08, 0.1, 0.12, 0.15), size=3),
}
IMAGES = (48, 96, 300, 1000)


def _asked(before: bool, right: Flags) -> dict[int, bool]:
    """The levels that bisection asks of an image, with the answers."""
    own: dict[int, bool] = {}
    while before and (level := next_level(LEVELS, own)) is not None:
        own[level] = bool(right[level - 1])
    return own


# Of every pattern of answers: whether level 0 is right, then each level.
_PATTERNS = (np.arange(64)[:, None] >> np.arange(6)[None, :] & 1).astype(np.bool_)
_ASKED = [_asked(bool(row[0]), row[1:]) for row in _PATTERNS]
_INFERRED = LevelAnswers.of(
    LEVELS, np.arange(64), _PATTERNS[:, 0], [*_ASKED], np.zeros(64, dtype=np.bool_)
).inferred
_QUESTIONS = np.array([len(own) for own in _ASKED])
_UNASKED = np.array([[level not in own for level in LEVELS] for own in _ASKED])


def planned(
    before: Flags, right: Flags, groups: npt.NDArray[np.intp], generator: np.random.Generator
) -> tuple[LevelAnswers, LevelAnswers, int, bool]:
    """Return the answers of the adaptive plan and of a full grid, what the first costs, and if all is run."""
    units = int(groups[-1]) + 1
    drawn = generator.random(units)[groups]
    full, tested = drawn < full_share(units), drawn >= 0.5
    code = before + right @ (2 << np.arange(5))
    every = LevelAnswers(LEVELS, groups, before, right, right, np.ones(len(before), dtype=np.bool_))
    inferred = _INFERRED[code]
    told = LevelAnswers(LEVELS, groups, before, inferred, np.where(full[:, None], right, inferred), full)
    if full.any() and monotonicity(told).is_rejected:
        return every, every, right.size, True
    # The claim's level is asked of the tested half beside.
    losses = dict(zip(LEVELS, told.losses(~tested).T, strict=True))
    claimed = LEVELS.index(claimed_level(LEVELS, losses, LOSS, TESTS))
    used = np.where(full, len(LEVELS), _QUESTIONS[code] + (_UNASKED[code, claimed] & tested))
    return told, every, int(used.sum()), False


def _holds(figure: Estimate, truth: float) -> bool:
    return (figure.low or 0.0) - 1e-9 <= truth <= (figure.high or 0.0) + 1e-9


def _width(figure: Estimate) -> float:
    return (figure.high or 0.0) - (figure.low or 0.0)


@dataclass(frozen=True)
class Truth:
    """The population's own figures: accuracies, losses and failed shares by level, and the loss level."""

    accuracy: npt.NDArray[np.float64]
    loss: npt.NDArray[np.float64]
    failed: npt.NDArray[np.float64]
    level: float | None


def truth_of(population: Population, generator: np.random.Generator) -> Truth:
    """Return what two million images show."""
    before, right, _ = population.draw(2_000_000 // population.size * population.size, generator)
    accuracy = right.mean(axis=0)
    loss = before.mean() - accuracy
    failed = 1.0 - np.logical_and.accumulate(right[before], axis=1).mean(axis=0)
    exact = [Estimate(estimate=value, low=value, high=value, n=1) for value in loss.tolist()]
    return Truth(accuracy, loss, failed, loss_level(LEVELS, exact, LOSS).level)


def measured(population: Population, truth: Truth, images: int, runs: int, seed: int) -> dict[str, Any]:
    """Return the coverage of each figure at its worst level, the cost, the widths and the choices."""
    covered = {name: np.zeros(5) for name in ("accuracy", "loss", "failed")}
    at_loss, cost, in_full, widths = 0, 0, 0, np.zeros(2)
    images -= images % population.size
    for number in range(runs):
        generator = np.random.default_rng([seed, number])
        before, right, groups = population.draw(images, generator)
        told, every, used, whole = planned(before, right, groups, generator)
        cost, in_full = cost + used, in_full + whole
        losses = [told.loss(at, generator) for at in range(5)]
        for at in range(5):
            accuracy = told.accuracy(at, generator)
            covered["accuracy"][at] += _holds(accuracy, truth.accuracy[at])
            covered["loss"][at] += _holds(losses[at], truth.loss[at])
            covered["failed"][at] += _holds(told.failed(at, generator), truth.failed[at])
            widths += _width(accuracy), _width(every.accuracy(at, generator))
        found = loss_level(LEVELS, losses, LOSS)
        level = np.inf if truth.level is None else truth.level
        low, high = (np.inf if end is None else end for end in (found.low, found.high))
        at_loss += low - 1e-9 <= level <= high + 1e-9
    ratio = float(widths[0] / widths[1])
    share = cost / (runs * images * 5)
    return {
        "images": images,
        "runs": runs,
        "least_coverage": {name: round(float(each.min()) / runs, 4) for name, each in covered.items()},
        "coverage_of_loss_level": round(at_loss / runs, 4),
        "classifications": round(share, 3),
        "width": round(ratio, 3),
        "classifications_at_equal_width": round(share * ratio**2, 3),
        "run_in_full": round(in_full / runs, 3),
    }


def measured_ranks(images: int, runs: int, seed: int) -> dict[str, Any]:
    """Return how often four classifiers, of which two are alike, get a rank or a change that is not true."""
    kinds = [POPULATIONS[name] for name in ("robust", "steady", "steady", "fragile")]
    truths = np.array([
        [kind.right, *(kind.right * (1.0 - np.cumsum(kind.points)))] for kind in kinds
    ])  # fmt: skip
    wrong, shown = 0, 0
    for number in range(runs):
        generator = np.random.default_rng([seed, number])
        values = {}
        for at, kind in enumerate(kinds):
            before, right, groups = kind.draw(images, generator)
            values[str(at)] = planned(before, right, groups, generator)[0].pseudo_values()
        ranks, changes = ranks_by_level(values, generator)
        false = False
        for level, told in enumerate(ranks):
            column = truths[:, level]
            for at, each in ((int(name), rank) for name, rank in told.items()):
                least, most = (
                    1 + (column > column[at] + 1e-9).sum(),
                    len(kinds) - (column < column[at] - 1e-9).sum(),
                )
                false |= not (each.low <= least and each.high >= most)
        wrong, shown = wrong + false, shown + bool(changes)
    return {
        "images": images,
        "runs": runs,
        "any_rank_not_true": wrong / runs,
        "a_change_is_shown": shown / runs,
    }


def main() -> None:
    """Measure every population at every number of images, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=RESULTS / "severity.json")
    given = parser.parse_args()
    figures: dict[str, Any] = {
        "loss": LOSS,
        "populations": {},
        "ranks": [],
        "seed": given.seed,
        "runs": given.runs,
    }
    for name, population in tqdm(POPULATIONS.items(), disable=None):
        truth = truth_of(population, np.random.default_rng(given.seed))
        runs = given.runs // (4 if population.size > 1 else 1)
        figures["populations"][name] = [
            measured(population, truth, images, runs, given.seed + images) for images in IMAGES
        ]
        print(name, *map(json.dumps, figures["populations"][name]), sep="\n", flush=True)  # noqa: T201
    figures["ranks"] = [measured_ranks(images, given.runs // 4, given.seed) for images in (96, 300, 1000)]
    print(*map(json.dumps, figures["ranks"]), sep="\n", flush=True)  # noqa: T201
    given.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
