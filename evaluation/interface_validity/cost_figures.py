"""The cost of tokens and images: evaluations of the UNet and seconds, by token and by kept image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Cost, Estimate
from evaluation.validity.measures import resampled

from .images import ImageSource, Placed
from .report import CostFigures, SpentFigures

Booked = tuple[str, Cost]
"""The group whose shared cost is booked on one of its items, and the cost booked on this item."""

_NOTHING = Estimate(estimate=None, low=None, high=None, n=0)


def cost_figures(
    tokens: Sequence[Booked],
    images: Mapping[ImageSource, Placed],
    kept: Mapping[ImageSource, np.ndarray],
    generator: np.random.Generator,
) -> CostFigures:
    """Average the booked costs; ``kept`` flags each image source's images in the table's layout.

    A token's evaluations count forwards and backwards. Intervals resample whole groups. The cost of a kept
    image is the cost of all images over the number kept; its interval covers the uncertainty of both.
    """
    spent = {image_source: _spent(_booked(each), generator) for image_source, each in images.items()}
    return CostFigures(
        token=_spent(tokens, generator),
        image=spent,
        kept_image={
            image_source: _per_kept(spent[image_source], int(each.made.sum()), int(kept[image_source].sum()))
            for image_source, each in images.items()
        },
    )


def _booked(placed: Placed) -> list[Booked]:
    return [(one.group, one.cost) for one in placed.table.ravel() if one is not None]


def _spent(booked: Sequence[Booked], generator: np.random.Generator) -> SpentFigures:
    groups = [group for group, _ in booked]
    return SpentFigures(
        unet_evaluations=_mean([_evaluations(each) for _, each in booked], groups, generator),
        seconds=_mean([each.seconds for _, each in booked], groups, generator),
    )


def _evaluations(cost: Cost) -> float:
    return float(cost.unet_evaluations + cost.unet_backward_evaluations)


def _mean(values: Sequence[float], groups: Sequence[str], generator: np.random.Generator) -> Estimate:
    if not values:
        return _NOTHING
    if np.ptp(values) == 0.0:
        # A count equal for every unit has no spread: its interval is the count itself.
        return Estimate(estimate=values[0], low=values[0], high=values[0], n=len(values))
    table = np.array(values)
    return resampled(lambda rows: float(table[rows].mean()), groups, generator)


def _per_kept(spent: SpentFigures, made: int, kept: int) -> SpentFigures:
    share = proportion(kept, made)
    return SpentFigures(
        unet_evaluations=_over(spent.unet_evaluations, share), seconds=_over(spent.seconds, share)
    )


def _over(cost: Estimate, share: Estimate) -> Estimate:
    if cost.estimate is None or not share.estimate or not share.low or not share.high:
        return _NOTHING.model_copy(update={"n": 0})
    assert cost.low is not None
    assert cost.high is not None
    return Estimate(
        estimate=cost.estimate / share.estimate,
        low=cost.low / share.high,
        high=cost.high / share.low,
        n=round(share.estimate * share.n),
    )
