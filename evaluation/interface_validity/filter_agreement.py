"""How far a filter's verdicts agree with those of the oracle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from faultline_core.statistics.bootstrap import proportion
from faultline_core.types import Estimate


@dataclass(frozen=True)
class FilterAgreement:
    """The effect of a filter on good images: ``before`` is their share without it.

    ``precision`` is their share of what the filter keeps, ``recall`` the share of them that it keeps.
    """

    before: Estimate
    precision: Estimate
    recall: Estimate


def filter_agreement(kept: ArrayLike, good: ArrayLike) -> FilterAgreement:
    """Compare a filter's verdicts (n,) with the oracle's (n,)."""
    left, right = np.asarray(kept, dtype=np.bool_), np.asarray(good, dtype=np.bool_)
    both = int(np.sum(left & right))
    return FilterAgreement(
        before=proportion(int(right.sum()), right.size),
        precision=proportion(both, int(left.sum())),
        recall=proportion(both, int(right.sum())),
    )
