"""How far CLIP's filter agrees with the oracle, and how many images it keeps."""

from __future__ import annotations

import numpy as np

from faultline_core.shift_benchmark.shift_filter import Verdicts, yields

from .filter_agreement import filter_agreement
from .image_source_figures import shows_class, shows_shift
from .images import Placed
from .report import FilterFigures


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
