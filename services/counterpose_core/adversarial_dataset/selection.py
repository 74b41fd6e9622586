"""Which of the failures are kept: a limited number of each caption, and none that nearly repeats another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Choice = Literal["kept", "near-duplicate", "over-cap"]

_BLOCK = 512


def choose_failures(
    features: Sequence[NDArray[np.floating] | None],
    captions: Sequence[Hashable],
    *,
    most_kept: int,
    near_duplicate: float | None,
) -> list[Choice]:
    """Choose among failures in their order: an image is kept unless it nearly repeats one that is kept.

    Images that are not kept repeat nothing: of a chain of similar images every second one may stay, where
    groups of near pairs (`counterpose_core.images.near_duplicates`) would leave one.

    Args:
        features: CLIP features (d,) of each image, at unit length; None, which repeats nothing, if unknown.
        captions: what each image was generated from.
        most_kept: how many images of one caption are kept.
        near_duplicate: the cosine from which an image repeats another, or None to compare none.
    """
    width = next((len(each) for each in features if each is not None), 0)
    kept_of, choices = Counter[Hashable](), list[Choice]()
    kept = np.zeros((0, width), dtype=np.float32)
    for start in range(0, len(features), _BLOCK):
        block = features[start : start + _BLOCK]
        rows = np.stack([np.zeros(width) if each is None else each for each in block]).astype(np.float32)
        near_kept = _largest(rows, kept)
        near_block = rows @ rows.T
        kept_here: list[int] = []
        for place, caption in enumerate(captions[start : start + _BLOCK]):
            nearest = max(near_kept[place], near_block[place, kept_here].max(initial=-np.inf))
            if kept_of[caption] >= most_kept:
                choices.append("over-cap")
            elif near_duplicate is not None and block[place] is not None and nearest >= near_duplicate:
                choices.append("near-duplicate")
            else:
                choices.append("kept")
                kept_of[caption] += 1
                kept_here.append(place)
        kept = np.concatenate([kept, rows[kept_here]])
    return choices


def _largest(rows: NDArray[np.float32], kept: NDArray[np.float32]) -> NDArray[np.float32]:
    found = np.full(len(rows), -np.inf, dtype=np.float32)
    for start in range(0, len(kept), _BLOCK):
        np.maximum(found, (rows @ kept[start : start + _BLOCK].T).max(axis=1), out=found)
    return found
