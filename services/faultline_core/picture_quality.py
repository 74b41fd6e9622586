"""How good a source's pictures are: by raters, by CLIP, and how far the filter agrees with an oracle."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from faultline_core.errors import InvalidRequest
from faultline_core.statistics import bootstrap_mean, mean_by_source, proportion
from faultline_core.types import Estimate

Question = Literal["object", "shift"]
"""What a rater is asked of a grid of pictures: where is the class, where is the shift (DI, A.4)."""


@dataclass(frozen=True)
class Vote:
    """Whether one rater selected one picture; an oracle is a rater like others."""

    picture: str
    rater: str
    question: Question
    selected: bool


@dataclass(frozen=True)
class SelectionFrequency:
    """The mean share of raters who selected a picture: of all pictures, and of those the filter keeps."""

    everything: Estimate
    kept: Estimate


def selection_frequencies(
    votes: Iterable[Vote], kept: Collection[str], generator: np.random.Generator
) -> dict[Question, SelectionFrequency]:
    """How often raters see the object and the shift (DI, figure 6); n counts pictures, each weighing 1.

    Raises:
        InvalidRequest: a rater voted twice on one picture.
    """
    given = list(votes)
    seen: set[tuple[str, str, Question]] = set()
    for vote in given:
        if (key := (vote.picture, vote.rater, vote.question)) in seen:
            raise InvalidRequest(f"{vote.rater!r} voted twice on the {vote.question} of {vote.picture!r}")
        seen.add(key)
    found: dict[Question, SelectionFrequency] = {}
    for question in get_args(Question):
        shares = mean_by_source(
            (vote.picture, float(vote.selected)) for vote in given if vote.question == question
        )
        left = [share for picture, share in shares.items() if picture in kept]
        found[question] = SelectionFrequency(
            everything=bootstrap_mean(list(shares.values()), generator, bounds=(0.0, 1.0)),
            kept=bootstrap_mean(left, generator, bounds=(0.0, 1.0)),
        )
    return found


@dataclass(frozen=True)
class SourceQuality:
    """One source's mean similarities to the two captions, and the share that passes (DI, figure 17)."""

    to_object: Estimate
    to_shift: Estimate
    passed: Estimate


def source_quality(
    to_object: ArrayLike, to_shift: ArrayLike, kept: ArrayLike, generator: np.random.Generator
) -> SourceQuality:
    """Sum up one source's pictures, (n,) each, so that sources can stand side by side."""
    passed = np.asarray(kept, dtype=np.bool_)
    return SourceQuality(
        to_object=bootstrap_mean(np.asarray(to_object, dtype=np.float64).tolist(), generator),
        to_shift=bootstrap_mean(np.asarray(to_shift, dtype=np.float64).tolist(), generator),
        passed=proportion(int(passed.sum()), passed.size),
    )


@dataclass(frozen=True)
class FilterAgreement:
    """How far a filter keeps what is good: ``before`` is the share of good pictures without it.

    ``precision`` is that share of what it keeps, ``recall`` the share of the good that it keeps.
    """

    before: Estimate
    precision: Estimate
    recall: Estimate


def filter_agreement(kept: ArrayLike, good: ArrayLike) -> FilterAgreement:
    """Hold a filter's verdicts (n,) against an oracle's (n,)."""
    left, right = np.asarray(kept, dtype=np.bool_), np.asarray(good, dtype=np.bool_)
    both = int(np.sum(left & right))
    return FilterAgreement(
        before=proportion(int(right.sum()), right.size),
        precision=proportion(both, int(left.sum())),
        recall=proportion(both, int(right.sum())),
    )
