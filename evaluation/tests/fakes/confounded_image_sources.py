"""Classifier answers to real images and to images of two image sources, with known true errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from evaluation.interface_validity.confounding import ImageSourceAnswers, ImageSources

SHIFTS, CLASSES, MODELS = ("in the snow", "red"), ("plate", "boat"), 4


def answers(
    accuracies: NDArray[np.float64], images: int, of_seed: NDArray[np.float64], draw: np.random.Generator
) -> ImageSourceAnswers:
    """Answers (shifts, classes, images, models) whose difficulty depends in part on the seed."""
    shape = (*accuracies.shape[:2], images, accuracies.shape[2])
    margin = 0.6 * of_seed[..., None] + 0.8 * draw.normal(size=shape)
    values = margin < stats.norm.ppf(accuracies)[:, :, None]
    return ImageSourceAnswers(values, np.ones(shape[:3], dtype=np.bool_))


def true_accuracies() -> NDArray[np.float64]:
    draw = np.random.default_rng(3)
    cells = draw.uniform(0.5, 0.85, size=(len(SHIFTS), len(CLASSES), 1))
    return np.asarray(cells + np.linspace(-0.1, 0.1, MODELS))


def image_sources(
    draw: np.random.Generator, *, token: float = 0.0, class_name: float = 0.3, images: int = 30
) -> ImageSources:
    """Image sources whose true accuracies are below the truth by the given errors."""
    truth, of_seed = true_accuracies(), draw.normal(size=(len(CLASSES), images))
    return ImageSources(
        shifts=SHIFTS,
        classes=CLASSES,
        truth=answers(truth, 120, draw.normal(size=(len(CLASSES), 120)), draw),
        token=answers(truth - token, images, of_seed, draw),
        class_name=answers(truth - class_name, images, of_seed, draw),
    )
