"""How far CLIP's filter agrees with the oracle, and how many images it keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterpose_core.shift_benchmark.shift_filter import Verdicts, yields
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate

from .image_source_figures import shows_class, shows_shift
from .images import Placed
from .report import FilterFigures


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


def verdicts(placed: Placed) -> Verdicts:
    """The verdict of the product's filter on each image."""
    return Verdicts(
        conditions=placed.layout.conditions,
        classes=placed.layout.classes,
        made=placed.made,
        has_object=placed.values(lambda one: one.has_object, 0.0).astype(np.bool_),
        has_shift=placed.values(lambda one: one.has_shift, 0.0).astype(np.bool_),
    )


def filter_figures(placed: Placed, found: Verdicts) -> FilterFigures:
    """Compare the filter with the oracle, for which an image is good if it shows its class and its shift."""
    made = found.made
    good = placed.values(lambda one: shows_class(one) and shows_shift(one), 0.0).astype(np.bool_)
    agreement = filter_agreement(found.kept[made], good[made])
    left = yields(found)
    return FilterFigures(
        before=agreement.before,
        precision=agreement.precision,
        recall=agreement.recall,
        yields={name: each.total.share for name, each in left.items()},
        thin={name: list(each.thin) for name, each in left.items() if each.thin},
    )
