"""Answers of models to simulated images with known true accuracies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from counterpose_core.shift_benchmark.answers import ModelAnswers

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """A probit model: an answer is right where ability exceeds the image's difficulty.

    Difficulty has a part of the class, of the seed, of the image and of the image to one model, so
    that images of one seed and answers to one image are alike.
    """

    shifts: int = 2
    classes: int = 6
    models: int = 8
    seed: int = 0

    @cached_property
    def margins(self) -> Floats:
        """The mean margin (conditions, classes, models) of ability over difficulty."""
        draw = np.random.default_rng(self.seed)
        of_class = draw.normal(0.0, 0.4, (self.classes, 1))
        of_model = np.linspace(-0.3, 1.5, self.models) + draw.normal(0.0, 0.3, (self.classes, self.models))
        cost = draw.uniform(0.2, 0.6, (self.shifts + 1, self.classes)) * np.arange(self.shifts + 1)[:, None]
        return np.asarray(of_class + of_model - cost[..., None])

    def values(self, generator: np.random.Generator, images: int) -> NDArray[np.bool_]:
        """Answers (conditions, classes, images, models) to freshly drawn images."""
        conditions, classes, models = self.margins.shape
        of_seed = generator.normal(0.0, 0.6, (1, classes, images, 1))
        of_image = generator.normal(0.0, 0.5, (conditions, classes, images, 1))
        to_model = generator.normal(0.0, 0.4, (conditions, classes, images, models))
        return np.asarray(self.margins[:, :, None] + of_seed + of_image + to_model > 0.0)

    @cached_property
    def truth(self) -> Floats:
        """The true accuracies (conditions, classes, models)."""
        accuracies: Floats = stats.norm.cdf(self.margins / np.sqrt(0.6**2 + 0.5**2 + 0.4**2))
        return accuracies

    def answers(
        self, generator: np.random.Generator, images: int = 12, *, share_kept: float = 0.8
    ) -> ModelAnswers:
        """Answers to images of which the filter keeps some, independent of what they show."""
        values = self.values(generator, images)
        kept = generator.uniform(size=values.shape[:3]) < share_kept
        return ModelAnswers(
            models=tuple(f"model-{index}" for index in range(self.models)),
            conditions=("base", *(f"shift-{index}" for index in range(1, self.shifts + 1))),
            classes=tuple(f"class-{index}" for index in range(self.classes)),
            values=values,
            made=np.ones_like(kept),
            kept=kept,
        )
