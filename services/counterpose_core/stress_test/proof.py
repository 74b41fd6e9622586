"""A proof: evidence on one change that grows over several runs, valid whenever one stops to look.

The evidence of each run's pairs is an e-value, and e-values of runs on other images multiply, whatever made
the user start the next run (Ville 1939; Grünwald, de Heide and Koolen 2024). The screen's pairs never count:
they chose the finding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpose_core.statistics.bounded_mean import betting_interval
from counterpose_core.stress_test.confirmation import MARGIN, e_value
from counterpose_core.stress_test.screening import LEAST_LOSS, LEVEL
from counterpose_core.types import Estimate

_BOUNDS = (-1.0, 1.0)
_MOST_EVIDENCE = 1e300
"""JSON has no infinity."""


@dataclass(frozen=True)
class Evidence:
    """What the pairs of several runs show of one change.

    ``runs`` are the losses of each run's pairs in planned order (n,); ``family`` is the number of findings
    that one could have asked about. ``broad`` tells whether enough of the images lose, where some have
    several pairs. The mean loss must be shown to exceed ``least``.
    """

    runs: Sequence[NDArray[np.float64]]
    family: int
    broad: bool = True
    least: float = 0.0

    @cached_property
    def losses(self) -> NDArray[np.float64]:
        """The losses of all pairs (n,)."""
        return np.concatenate([*self.runs, np.empty(0)])

    @cached_property
    def e_values(self) -> list[float]:
        """The evidence of each run's pairs alone."""
        return [e_value(losses - self.least) for losses in self.runs]

    @cached_property
    def absence(self) -> float:
        """The evidence that the mean loss is below ``MARGIN``."""
        return min(math.prod(e_value(MARGIN - losses) for losses in self.runs), _MOST_EVIDENCE)

    @cached_property
    def loss(self) -> Estimate:
        """The mean loss with a 95 % interval by betting, which is valid at any stop, unlike a bootstrap's."""
        if not self.losses.size:
            return Estimate(estimate=None, low=None, high=None, n=0)
        low, high = betting_interval(self.losses, _BOUNDS)
        mean = self._mean
        return Estimate(estimate=mean, low=min(low, mean), high=max(high, mean), n=self.losses.size)

    @property
    def e_value(self) -> float:
        """The evidence that the mean loss is above ``least``."""
        return min(math.prod(self.e_values), _MOST_EVIDENCE)

    @property
    def needed(self) -> float:
        """The evidence that proves the change: with it, any false proof is as rare as the level says."""
        return self.family / LEVEL

    @property
    def proven(self) -> bool:
        """Whether the loss is shown, large enough to be worth a finding, and not of one odd image."""
        return self.e_value >= self.needed and self._mean >= LEAST_LOSS and self.broad

    @property
    def absent(self) -> bool:
        """Whether a mean loss of ``MARGIN`` or more is ruled out.

        This is not corrected over the family: a change is listed because it seemed to hurt.
        """
        return self.absence >= 1.0 / LEVEL

    @property
    def p(self) -> float:
        """A p-value of the change, valid at any stop."""
        return min(1.0, 1.0 / self.e_value)

    @property
    def p_adjusted(self) -> float:
        """The p-value after Bonferroni's correction over the family."""
        return min(1.0, self.family * self.p)

    @property
    def _mean(self) -> float:
        return float(np.clip(self.losses.mean(), *_BOUNDS)) if self.losses.size else 0.0


def join(runs: Sequence[ArrayLike], family: int, *, broad: bool = True, least: float = 0.0) -> Evidence:
    """Join the pairs of several runs.

    Args:
        runs: the losses of each run's pairs in planned order (n,), in [-1, 1], each pair in one run only.
        family: the number of findings that one could have asked about, at least 1.
        broad: whether enough of the images lose, where some have several pairs.
        least: the mean loss that must be shown to be exceeded.
    """
    return Evidence([np.asarray(each, dtype=np.float64) for each in runs], family, broad, least)
