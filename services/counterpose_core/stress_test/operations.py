"""What operations on images cost a classifier: paired answers, exact tests, the level from which they hurt.

An operation changes the same photographs at ordered levels, and everything is tested that was asked for, so
nothing is chosen by its outcome and no image is kept back. The unit is a group of photographs. For each
operation the hardest level is tested first, and an easier one only after all harder ones have shown a loss,
each at the operation's share of the error rate. A loss is shown if it is larger than the least loss that
counts; that it is above 0 is tested beside, in the same way. An operation of which every level has shown one
leaves its share to the others: with one level each, this is Holm's correction (the graphs of Bretz et al.
2009).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from counterpose_core.statistics.bootstrap import Flags, Floats
from counterpose_core.statistics.bounded_mean import betting_p, bounded_mean
from counterpose_core.statistics.p_values import sign_flip_p
from counterpose_core.statistics.paired_proportions import paired_difference, paired_excess_p
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.stress_test.screening import LEVEL
from counterpose_core.types import Estimate


@dataclass(frozen=True)
class PairedAnswers:
    """The answers to photographs at their working size and to what an operation makes of them.

    ``groups`` numbers the group of each photograph (n,); ``before`` and ``after`` tell which are answered
    rightly (n,).
    """

    groups: npt.NDArray[np.intp]
    before: Flags
    after: Flags

    @property
    def lost(self) -> int:
        """The photographs that are no longer answered rightly."""
        return int((self.before & ~self.after).sum())

    @property
    def gained(self) -> int:
        """The photographs that are answered rightly only with the operation."""
        return int((~self.before & self.after).sum())

    @property
    def losses(self) -> Floats:
        """The loss of each group, in [-1, 1]: each counts 1 (groups,)."""
        _, places = np.unique(self.groups, return_inverse=True)
        loss = self.before.astype(np.float64) - self.after
        return np.asarray(np.bincount(places, weights=loss) / np.bincount(places))

    def p(self, generator: np.random.Generator) -> float:
        """The two-sided p of "the operation changes nothing": who loses and who gains is a coin's side.

        Of photographs that stand alone this is the sign test of those that changed (McNemar's, exact).
        """
        losses = self.losses
        if not losses.any():
            return 1.0
        changed = losses[losses != 0.0]
        if np.isin(changed, (-1.0, 1.0)).all():
            return _sign_test(int((changed > 0).sum()), changed.size)
        return min(1.0, 2.0 * sign_flip_p(losses if losses.sum() > 0 else -losses, generator))

    def p_of_at_most(self, least: float) -> float:
        """The p, by both sides, of "the mean loss is at most ``least``", which is above 0.

        Of groups it is by bets: signs tell nothing of another mean than 0.
        """
        losses = self.losses
        if losses.size < self.groups.size:
            return min(1.0, 2.0 * betting_p(losses, least, (-1.0, 1.0)))
        return min(1.0, 2.0 * paired_excess_p(self.lost, self.gained, losses.size, least))

    def loss(self, generator: np.random.Generator) -> Estimate:
        """The mean loss over groups with its 95 % interval; Newcombe's where photographs stand alone."""
        if np.unique(self.groups).size < self.groups.size:
            return bounded_mean(self.losses, generator)
        both, neither = int((self.before & self.after).sum()), int((~self.before & ~self.after).sum())
        return paired_difference(both, self.lost, self.gained, neither)


def _sign_test(positive: int, n: int) -> float:
    return min(1.0, 2.0 * float(scipy.special.bdtr(min(positive, n - positive), n, 0.5)))


def least_lost(tested: int, least: float = 0.0, units: int = 0) -> int:
    """Return the photographs that show a loss if they are lost and none is gained, of so many operations.

    Args:
        tested: the operations.
        least: the loss that must be exceeded.
        units: all photographs that are tested; where they are too few, the number that could show a loss.
    """
    alone = math.ceil(math.log2(2 * max(1, tested) / LEVEL) / (1.0 - math.log2(1.0 + least)))
    if not least or units <= alone:
        return alone
    return bisect_left(
        range(units),
        True,
        key=lambda lost: 2.0 * paired_excess_p(lost, 0, units, least) <= LEVEL / max(1, tested),
    )


@dataclass(frozen=True)
class LevelTest:
    """One level of an operation: answers, mean loss, p of the least loss, and what is shown after correction.

    ``shown``: that the loss is larger than the least loss; ``real``: that it is above 0.
    """

    level: int
    answers: PairedAnswers
    loss: Estimate
    p: float
    shown: bool = False
    real: bool = False

    @property
    def is_harmless(self) -> bool:
        """Whether its interval excludes a loss as large as the margin."""
        return self.loss.high is not None and self.loss.high < MARGIN


def least_units(sizes: Sequence[int], operations: int, least_loss: float = 0.0) -> int:
    """Return the units from which a class is tested: with fewer, losing all of them would not show a loss.

    The more classes are tested, the more images a loss takes; and the more it takes, the fewer are tested.

    Args:
        sizes: the units of each test of a class that could be made.
        operations: the tests that one class takes at least, of all classifiers.
        least_loss: the loss that must be exceeded.
    """
    least = least_lost(operations, least_loss)
    while least < least_lost(sum(size >= least for size in sizes), least_loss):
        least += 1
    return least


Key = TypeVar("Key", bound=Hashable)


def operation_tests(
    answers: Mapping[Key, Mapping[int, PairedAnswers]],
    generators: Mapping[Key, np.random.Generator],
    least: float = 0.0,
) -> dict[Key, list[LevelTest]]:
    """Test every operation of every classifier, each level in order.

    A key names a classifier and an operation; of a test of one class, also the class.

    Args:
        answers: the answers by level, of each classifier and operation.
        generators: draws the bootstrap and the sign flips of each of them.
        least: the loss that must be exceeded.

    Returns:
        the levels of each, the easiest first.
    """
    drafts: dict[Key, list[LevelTest]] = {}
    for key, by_level in answers.items():
        drafts[key] = [
            LevelTest(level, pairs, pairs.loss(generators[key]), pairs.p(generators[key]))
            for level, pairs in sorted(by_level.items())
        ]
    real = shown = _rejected(drafts)
    if least:
        for key, tests in drafts.items():
            drafts[key] = [replace(test, p=test.answers.p_of_at_most(least)) for test in tests]
        shown = _rejected(drafts)
    return {
        key: [
            replace(
                test, shown=at >= len(tests) - shown[key], real=at >= len(tests) - max(shown[key], real[key])
            )
            for at, test in enumerate(tests)
        ]
        for key, tests in drafts.items()
    }


def _rejected(drafts: Mapping[Key, Sequence[LevelTest]]) -> dict[Key, int]:
    return _shown({key: [_one_sided(test) for test in tests] for key, tests in drafts.items()})


def _one_sided(test: LevelTest) -> float:
    # A gain is shown by no small p.
    return test.p if (test.loss.estimate or 0.0) > 0.0 else 1.0


def _shown(p_values: Mapping[Key, Sequence[float]]) -> dict[Key, int]:
    """How many of each sequence's last hypotheses are rejected; a finished sequence leaves its share."""
    rejected = dict.fromkeys(p_values, 0)
    while True:
        open_ = [key for key, values in p_values.items() if rejected[key] < len(values)]
        before = dict(rejected)
        for key in open_:
            left = p_values[key][: len(p_values[key]) - rejected[key]]
            rejected[key] += next(
                (at for at, p in enumerate(reversed(left)) if p > LEVEL / len(open_)), len(left)
            )
        if rejected == before:
            return rejected
