"""Joins several stretches of seeds: generated images, renderings and real images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from counterpose_core.shift_benchmark.answers import ModelAnswers

from .assembly import Features, Pieces
from .fine_grained_images import joined_fine_grained


def joined(given: Sequence[Pieces]) -> Pieces:
    """Join stretches, each with its own zoo, tokens and images; no two share the position of a seed.

    A model of the joint table is an architecture and a length, trained once per stretch: accuracies average
    over trainings. The figures of batches are those of the first stretch.

    Raises:
        ValueError: there is no stretch, or their layouts differ.
    """
    if not given or len({one.layout for one in given}) > 1:
        raise ValueError("stretches of different layout cannot be joined")
    first = given[0]
    stride = 1 + max(image.seed for one in given for image in one.images)
    seconds: Counter[str] = Counter()
    for one in given:
        seconds.update(one.seconds)
    return replace(
        first,
        seeds=[seed for one in given for seed in one.seeds],
        truth=_answers([one.truth for one in given]),
        images=[
            replace(
                image,
                id=f"{number}-{image.id}",
                seed=number * stride + image.seed,
                group=f"{number}-{image.group}",
            )
            for number, one in enumerate(given)
            for image in one.images
        ],
        real_features=_features([one.real_features for one in given]),
        base_features={
            image_source: _features([one.base_features[image_source] for one in given])
            for image_source in first.base_features
        },
        tokens=[
            (f"{number}-{group}", cost) for number, one in enumerate(given) for group, cost in one.tokens
        ],
        seconds=dict(seconds),
        fine_grained=joined_fine_grained([one.fine_grained for one in given]),
    )


def _answers(given: Sequence[ModelAnswers]) -> ModelAnswers:
    values, made, kept = (
        np.concatenate([getattr(one, name) for one in given], axis=2) for name in ("values", "made", "kept")
    )
    return replace(given[0], values=values, made=made, kept=kept)


def _features(given: Sequence[Features]) -> Features:
    return {name: np.concatenate([one[name] for one in given]) for name in given[0]}
