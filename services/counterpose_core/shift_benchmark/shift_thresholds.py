"""The least CLIP similarity at which an image counts as showing its shift, set by a reviewer (DI, A.3)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.images.clip_metrics import cosines
from counterpose_core.text.plain_text import check_words

INSPECTED_PERCENTILES = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
INSPECTED_IMAGES = 8
"""Both are our choice: the paper says "a fixed set" of percentiles and "a small number" of images."""

_LONGEST_AUTHOR = 200


@dataclass(frozen=True)
class Inspection:
    """The indices of images around one percentile of a shift's similarities, for a reviewer to inspect."""

    percentile: float
    similarity: float
    images: tuple[int, ...]


def inspections(
    similarities: ArrayLike,
    *,
    percentiles: Sequence[float] = INSPECTED_PERCENTILES,
    images: int = INSPECTED_IMAGES,
) -> tuple[Inspection, ...]:
    """Choose the images to inspect at each percentile, the lowest percentile first.

    Args:
        similarities: the cosine (n,) of every image of the shift with the shift's caption.
        percentiles: the percentiles to inspect, each from 0 to 100.
        images: the number of images of nearest rank at each percentile.

    Raises:
        DatasetEmpty: there is no image.
    """
    values = cosines(similarities, "the shift")
    if values.size == 0:
        raise DatasetEmpty("the shift has no image to inspect; wait until the run has made some")
    order = np.argsort(values, kind="stable")
    size = min(images, values.size)
    found = []
    for percentile in sorted(percentiles):
        middle = percentile / 100.0 * (values.size - 1)
        start = int(np.clip(round(middle - (size - 1) / 2.0), 0, values.size - size))
        shown = tuple(int(index) for index in order[start : start + size])
        found.append(Inspection(percentile, float(np.percentile(values, percentile)), shown))
    return tuple(found)


@dataclass(frozen=True)
class ShiftDecision:
    """The threshold that a reviewer accepted for a shift, and when.

    ``failing_above`` are the higher percentiles at which some image lacks the shift: the fewer, the better
    CLIP recognises the shift. ``threshold`` is None if no percentile was good enough; then nothing passes.
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
    """Accept the lowest percentile at which all inspected images show the shift (DI, A.3).

    Args:
        shift: the name of the shift.
        inspected: the images that the author inspected, by percentile.
        shows: by index of an inspected image, whether the author saw the shift in it.
        checkpoint: the CLIP of the similarities.
        author: the name of the reviewer.
        decided_at: the time of the decision, with a time zone.

    Raises:
        InvalidRequest: an image was not judged, the author's name is not plain text, or the time has no zone.
    """
    check_words(author, field="author", most=_LONGEST_AUTHOR)
    if decided_at.tzinfo is None:
        raise InvalidRequest(f"the time {decided_at!s} has no time zone; add one", pointer="/decided_at")
    unseen = [index for each in inspected for index in each.images if index not in shows]
    if unseen:
        raise InvalidRequest(f"the image {unseen[0]} was inspected but not judged", pointer="/shows")
    good = [each for each in inspected if all(shows[index] for index in each.images)]
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
