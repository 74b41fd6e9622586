"""The wordings of one change: whether they cost the same, and which of them hurts by itself.

“The ball is gone” is a ball that becomes a person in some images and nothing in others. A sentence may name
only what was shown, so each wording is tested alone, and all of them against one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.confirmation import WordingScope
from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.stress_test.confirmation import PairColumns, relabelled_p
from counterpose_core.stress_test.screening import LEAST_LOSS, LEVEL, WordingKey

LEAST_PAIRS = 8
"""Pairs of a wording that is tested by itself: fewer say too little of it, whatever they came to."""

_RELABELLINGS = 4000
_ROUNDING = 1e-9


@dataclass(frozen=True)
class WordingTest:
    """The pairs of one wording alone; ``p`` is uncorrected; ``broad``: whether enough images lose."""

    n: int
    loss: float
    p: float
    broad: bool = True

    @property
    def is_tested(self) -> bool:
        """Whether it has pairs enough to be judged by itself."""
        return self.n >= LEAST_PAIRS

    @property
    def breaks(self) -> bool:
        """Whether it hurts by itself."""
        return self.is_tested and self.p <= LEVEL and self.loss >= LEAST_LOSS and self.broad


def wording_test(pairs: PairColumns, generator: np.random.Generator) -> WordingTest:
    """Test the pairs of one wording by themselves."""
    p = relabelled_p(pairs, generator) if pairs.sources.size >= LEAST_PAIRS else 1.0
    return WordingTest(pairs.sources.size, pairs.mean, p, pairs.is_broad)


def parted_p(pairs: PairColumns, wordings: Sequence[WordingKey], generator: np.random.Generator) -> float:
    """Return the p of "all wordings cost the same", by exchanging them among the pairs.

    Where source images give several pairs, wordings are exchanged among the pairs of one image. The statistic
    is the sum of squares between the wordings' mean losses.

    Args:
        pairs: all pairs (n,).
        wordings: the wording of each pair (n,).
        generator: draws the relabellings.
    """
    numbers = {wording: number for number, wording in enumerate(dict.fromkeys(wordings))}
    index = np.array([numbers[wording] for wording in wordings], dtype=np.int64)
    if len(numbers) < 2:
        return 1.0
    strata = pairs.sources if pairs.redrawn else np.zeros_like(pairs.sources)
    order = np.argsort(strata, kind="stable")
    losses, labels, strata = pairs.losses[order], index[order], strata[order]
    # Sorted by image first and chance second: wordings move among the pairs of an image only.
    chances = generator.random((_RELABELLINGS, labels.size)) + strata
    drawn = labels[np.argsort(chances, axis=1)]
    reached = np.count_nonzero(_between(losses, drawn) >= _between(losses, labels[None, :]) - _ROUNDING)
    return float(reached + 1) / (_RELABELLINGS + 1)


def _between(losses: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return the sum of squares between wordings under each labelling [labellings, n]."""
    squares = np.zeros(len(labels))
    for wording in range(int(labels.max()) + 1):
        mine = labels == wording
        squares += (mine @ losses) ** 2 / mine.sum(axis=1)
    return squares


def named(tests: Mapping[WordingKey, WordingTest], parted: float) -> list[WordingKey]:
    """Return the wordings that a finding of the change names; ``parted`` is the p of their agreement.

    All of them, unless they part: then those that hurt by themselves. If they part and none has pairs enough
    to hurt by itself, the finding stays one of all.
    """
    if parted > LEVEL:
        return list(tests)
    tested = sum(test.is_tested for test in tests.values())
    # Closed testing: of a proven change one wording hurts, a tested one if all are tested.
    idle = max(1, tested - (tested == len(tests)))
    hurting = [wording for wording, test in tests.items() if test.breaks and test.p * idle <= LEVEL]
    return hurting or list(tests)


def scope_of(wordings: Mapping[WordingKey, bool]) -> WordingScope:
    """Return what wordings have in common; ``wordings``: whether each is known to hurt by itself."""
    plain = [each for each in wordings if is_plain(each)]
    if any(wordings[each] for each in plain):
        return "plain"
    return "mixed" if plain else "replaced"


def is_plain(wording: WordingKey) -> bool:
    """Whether words go and nothing takes their place, or come in and nothing makes room for them."""
    return not all(wording)
