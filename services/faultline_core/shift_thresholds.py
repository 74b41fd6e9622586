"""The least CLIP similarity at which a picture counts as showing its shift: a person's choice (DI, A.3)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from faultline_core.clip_metrics import cosines
from faultline_core.errors import DatasetEmpty, InvalidRequest
from faultline_core.texts import check_words

INSPECTED_PERCENTILES = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
INSPECTED_PICTURES = 8
"""Ours, both: the paper says "a fixed set" of percentiles and "a small number" of pictures."""

_LONGEST_AUTHOR = 200


@dataclass(frozen=True)
class Inspection:
    """Pictures around one percentile of a shift's similarities, by their indices, for a person to look at."""

    percentile: float
    similarity: float
    pictures: tuple[int, ...]


def inspections(
    similarities: ArrayLike,
    *,
    percentiles: Sequence[float] = INSPECTED_PERCENTILES,
    pictures: int = INSPECTED_PICTURES,
) -> tuple[Inspection, ...]:
    """Choose what to look at: the ``pictures`` of nearest rank at each percentile, the lowest first.

    ``similarities`` (n,) are those of every picture of the shift to the shift's caption.

    Raises:
        DatasetEmpty: there is no picture.
    """
    values = cosines(similarities, "the shift")
    if values.size == 0:
        raise DatasetEmpty("the shift has no picture to inspect")
    order = np.argsort(values, kind="stable")
    size = min(pictures, values.size)
    found = []
    for percentile in sorted(percentiles):
        middle = percentile / 100.0 * (values.size - 1)
        start = int(np.clip(round(middle - (size - 1) / 2.0), 0, values.size - size))
        shown = tuple(int(index) for index in order[start : start + size])
        found.append(Inspection(percentile, float(np.percentile(values, percentile)), shown))
    return tuple(found)


@dataclass(frozen=True)
class ShiftDecision:
    """Which threshold a person accepted for a shift, and when, by what they saw.

    ``failing_above`` names higher percentiles at which some picture lacks the shift: the fewer, the
    better CLIP tells it. Without ``threshold`` no percentile was good enough, and nothing passes.
    """

    shift: str
    checkpoint: str
    author: str
    decided_at: dt.datetime
    percentile: float | None
    threshold: float | None
    failing_above: tuple[float, ...]


def decide(
    shift: str,
    inspected: Sequence[Inspection],
    shows: Mapping[int, bool],
    *,
    checkpoint: str,
    author: str,
    decided_at: dt.datetime,
) -> ShiftDecision:
    """Accept the lowest percentile at which all inspected pictures show the shift (DI, A.3).

    ``shows`` maps each inspected picture's index to what the author saw.

    Raises:
        InvalidRequest: a picture was not judged, the author has no name or the time no zone.
    """
    check_words(author, field="author", most=_LONGEST_AUTHOR)
    if decided_at.tzinfo is None:
        raise InvalidRequest(f"the time {decided_at!s} has no zone", pointer="/decided_at")
    unseen = [index for each in inspected for index in each.pictures if index not in shows]
    if unseen:
        raise InvalidRequest(f"the picture {unseen[0]} was inspected but not judged", pointer="/shows")
    good = [each for each in inspected if all(shows[index] for index in each.pictures)]
    accepted = min(good, key=lambda each: each.percentile, default=None)
    rest = [each.percentile for each in inspected if each not in good]
    return ShiftDecision(
        shift=shift,
        checkpoint=checkpoint,
        author=author,
        decided_at=decided_at,
        percentile=None if accepted is None else accepted.percentile,
        threshold=None if accepted is None else accepted.similarity,
        failing_above=tuple(p for p in sorted(rest) if accepted is not None and p > accepted.percentile),
    )
