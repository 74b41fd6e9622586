"""Retrieved images that are not independent: found twice, nearly equal, or of one group of their dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpose_core.images.near_duplicates import joined_by
from counterpose_core.statistics.coded import Ints
from counterpose_gateway.summaries.columns import NONE


@dataclass(frozen=True, eq=False)
class Retrieved:
    """Retrieved images (n,) by codes: the class of each, the image itself, one that is nearly equal to it.

    ``alike`` is the image that the same search found nearly equal, or the image itself. ``named`` is its
    group in its dataset, `NONE` where it has none.
    """

    label: Ints
    image: Ints
    alike: Ints
    named: Ints


def retrieved_groups(found: Retrieved) -> Ints:
    """Return the number of the group of each image (n,), `NONE` where it is alone of its class in its group.

    An image that several conditions of a class have is one image. Groups that share an image are one.
    """
    n = len(found.label)
    every, in_group = np.arange(n), np.flatnonzero(found.named != NONE)
    # Groups have codes of their own, which start where those of images end.
    images = 1 + max(found.image.max(initial=-1), found.alike.max(initial=-1))
    keys = np.concatenate([found.image, found.alike, images + found.named[in_group]])
    ends = np.concatenate([every, every, in_group])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    numbers = joined_by(n, np.stack([ends[first][inverse], ends], axis=1))
    _, place, sizes = np.unique(
        np.stack([found.label, numbers]), axis=1, return_inverse=True, return_counts=True
    )
    return np.where(sizes[place.reshape(-1)] > 1, numbers, NONE)
