"""What each image source's images show: class, shift and mismatch by the oracle, similarity by CLIP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate
from counterpose_miniature.world.user_dataset import MISMATCHES
from evaluation.validity.measures import clustered_share, resampled

from .images import Image, ImageSource
from .kernel_distance import LEAST, mean_distance
from .report import ImageSourceComparison, ImageSourceFigures
from .world_shifts import BY_NAME

Features = Mapping[str, NDArray[np.floating]]
"""CLIP features (n, d) of images, by class."""


def image_source_comparison(
    images: Sequence[Image],
    real: Features,
    made: Mapping[ImageSource, Features],
    generator: np.random.Generator,
) -> ImageSourceComparison:
    """Compare both image sources; ``made`` are the features of each one's base images."""
    token, class_name = (
        _figures(
            [one for one in images if one.image_source == image_source], real, made[image_source], generator
        )
        for image_source in ("token", "class-name")
    )
    return ImageSourceComparison(
        token=token, class_name=class_name, presence_ratio=_presence_ratio(images, generator)
    )


def shows_class(one: Image) -> bool:
    """Whether the oracle sees the image's class."""
    return one.seen["object_class"] == one.class_name


def shows_shift(one: Image) -> bool:
    """Whether the oracle sees the image's shift; true for a base image, which has none."""
    return one.shift == BASE or BY_NAME[one.shift].shown_by(one.seen)


def _figures(
    images: Sequence[Image], real: Features, made: Features, generator: np.random.Generator
) -> ImageSourceFigures:
    shifted = [one for one in images if one.shift != BASE]
    classes = list(dict.fromkeys(one.class_name for one in images))
    names = [name for name in BY_NAME if any(one.shift == name for one in shifted)]
    return ImageSourceFigures(
        class_accuracy=clustered_share([(_cluster(one), shows_class(one)) for one in images], generator),
        shift_presence=clustered_share([(_cluster(one), shows_shift(one)) for one in shifted], generator),
        presence_by_shift={
            name: clustered_share(
                [(_cluster(one), shows_shift(one)) for one in shifted if one.shift == name], generator
            )
            for name in names
        },
        mismatch={
            each.object_class: clustered_share(
                [
                    (_cluster(one), each.shown_by(one.seen))
                    for one in images
                    if one.class_name == each.object_class
                ],
                generator,
            )
            for each in MISMATCHES
        },
        object_similarity=_similarity(images, generator),
        object_similarity_by_class={
            name: _similarity([one for one in images if one.class_name == name], generator)
            for name in classes
        },
        kernel_distance=mean_distance(
            (real[name], made[name]) for name in classes if len(made.get(name, ())) >= LEAST
        ),
    )


def _cluster(one: Image) -> str:
    """Images of a class and seed share their noise."""
    return f"{one.class_name} {one.seed}"


def _similarity(images: Sequence[Image], generator: np.random.Generator) -> Estimate:
    """The mean over classes' seeds, each the mean of its images; n counts seeds."""
    found: dict[str, list[float]] = {}
    for one in images:
        found.setdefault(_cluster(one), []).append(one.to_object)
    return bootstrap_mean([float(np.mean(each)) for each in found.values()], generator)


def _presence_ratio(images: Sequence[Image], generator: np.random.Generator) -> Estimate:
    shifted = [one for one in images if one.shift != BASE]
    shown = np.array([shows_shift(one) for one in shifted], dtype=np.bool_)
    token = np.array([one.image_source == "token" for one in shifted], dtype=np.bool_)

    def ratio(rows: NDArray[np.intp]) -> float | None:
        mine, other = shown[rows][token[rows]], shown[rows][~token[rows]]
        return float(mine.mean() / other.mean()) if mine.size and other.any() else None

    return resampled(ratio, [_cluster(one) for one in shifted], generator)
