"""The quality of the images of an image source, by raters and by CLIP."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from counterpose_core.errors import InvalidRequest
from counterpose_core.statistics.bootstrap import bootstrap_mean, mean_by_source, proportion
from counterpose_core.types import Estimate

Question = Literal["object", "shift"]
"""The question to a rater of a grid of images: which show the class, which show the shift (DI, A.4)."""


@dataclass(frozen=True)
class Vote:
    """Whether one rater selected one image; an oracle counts as a rater."""

    image: str
    rater: str
    question: Question
    selected: bool


@dataclass(frozen=True)
class SelectionFrequency:
    """The mean share of raters who selected an image, over all images and over those the filter keeps."""

    everything: Estimate
    kept: Estimate


def selection_frequencies(
    votes: Iterable[Vote], kept: Collection[str], generator: np.random.Generator
) -> dict[Question, SelectionFrequency]:
    """Return how often raters see the object and the shift (DI, figure 6); n counts images, each weighing 1.

    Raises:
        InvalidRequest: a rater voted twice on one image and question.
    """
    given = list(votes)
    seen: set[tuple[str, str, Question]] = set()
    for vote in given:
        if (key := (vote.image, vote.rater, vote.question)) in seen:
            raise InvalidRequest(
                f"{vote.rater!r} voted twice on the {vote.question} of {vote.image!r}; keep one vote"
            )
        seen.add(key)
    found: dict[Question, SelectionFrequency] = {}
    for question in get_args(Question):
        shares = mean_by_source(
            (vote.image, float(vote.selected)) for vote in given if vote.question == question
        )
        left = [share for image, share in shares.items() if image in kept]
        found[question] = SelectionFrequency(
            everything=bootstrap_mean(list(shares.values()), generator, bounds=(0.0, 1.0)),
            kept=bootstrap_mean(left, generator, bounds=(0.0, 1.0)),
        )
    return found


@dataclass(frozen=True)
class ImageSourceQuality:
    """Mean similarities of an image source's images to both captions, and the share that passes (fig. 17)."""

    to_object: Estimate
    to_shift: Estimate
    passed: Estimate


def image_source_quality(
    to_object: ArrayLike, to_shift: ArrayLike, kept: ArrayLike, generator: np.random.Generator
) -> ImageSourceQuality:
    """Summarise one image source's images, to compare it with others.

    Args:
        to_object: cosines with the caption of the class (n,).
        to_shift: cosines with the caption of the shift (n,).
        kept: which images pass the filter (n,).
        generator: draws the bootstraps.
    """
    passed = np.asarray(kept, dtype=np.bool_)
    return ImageSourceQuality(
        to_object=bootstrap_mean(np.asarray(to_object, dtype=np.float64).tolist(), generator),
        to_shift=bootstrap_mean(np.asarray(to_shift, dtype=np.float64).tolist(), generator),
        passed=proportion(int(passed.sum()), passed.size),
    )
