"""How far CLIP's filter agrees with the oracle, by which thresholds, and what it leaves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from faultline_core.object_thresholds import object_thresholds
from faultline_core.picture_quality import filter_agreement
from faultline_core.shift_filter import FilterThresholds, PictureScores, Verdicts, judge, yields
from faultline_core.shift_thresholds import decide, inspections
from faultline_core.shifts import BASE

from .pictures import Picture, Placed
from .report import FilterFigures
from .source_figures import shows_class, shows_shift
from .world_shifts import BY_NAME

CHECKPOINT = "miniature"
ORACLE = "the oracle of tests/validity"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def shift_threshold(shift: str, pictures: Sequence[Picture]) -> float | None:
    """The paper's procedure (A.3) with the oracle for the person: None where no percentile is good enough.

    ``pictures`` are the shift's on development seeds: what is judged shall not have set its own bar.
    """
    mine = [one for one in pictures if one.shift == shift]
    looked = inspections([one.to_shift for one in mine])
    shows = {index: shows_shift(mine[index]) for each in looked for index in each.pictures}
    return decide(shift, looked, shows, checkpoint=CHECKPOINT, author=ORACLE, decided_at=_EPOCH).threshold


def thresholds(
    classes: Sequence[str],
    conditions: Sequence[str],
    real: Mapping[str, NDArray[np.floating]],
    real_as_style: Mapping[str, NDArray[np.floating]],
    shifts: Mapping[str, float | None],
) -> FilterThresholds:
    """Object thresholds from real pictures' similarities, by the caption that each condition has.

    ``real`` are to "a photo of a <class>", ``real_as_style`` to "a <class>", which styles are held against.
    """
    photo = object_thresholds(real, checkpoint=CHECKPOINT).of(classes)
    style = object_thresholds(real_as_style, checkpoint=CHECKPOINT, photo=False).of(classes)
    rows = [style if name != BASE and BY_NAME[name].shift.is_style else photo for name in conditions]
    return FilterThresholds(checkpoint=CHECKPOINT, objects=np.stack(rows), shifts=shifts)


def verdicts(placed: Placed, by: FilterThresholds) -> Verdicts:
    """What the filter says of each picture."""
    scores = PictureScores(
        checkpoint=CHECKPOINT,
        conditions=placed.layout.conditions,
        classes=placed.layout.classes,
        made=placed.made,
        to_object=placed.values(lambda one: one.to_object),
        to_shift=placed.values(lambda one: one.to_shift),
    )
    return judge(scores, by)


def filter_figures(placed: Placed, found: Verdicts) -> FilterFigures:
    """Hold the filter against the oracle, who calls a picture good that shows its class and its shift."""
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
