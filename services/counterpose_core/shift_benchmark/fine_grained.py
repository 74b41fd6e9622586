"""One class under several prompts, by token and by class name, to find the cause of a failure (DI, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from counterpose_core.errors import InvalidRequest
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate

Images = Mapping[int, float]
"""By seed: whether a classifier was right on the image, or its p(true class)."""


@dataclass(frozen=True)
class PromptAccuracy:
    """A classifier's accuracy on one prompt's images by one image source.

    ``drop`` is the accuracy on the image source's base minus that on the prompt's images, over the seeds
    that both have. ``beside_token`` is the accuracy of the token's images minus that of this one's images
    with the same prompt and seeds, or None for the token itself: at the base it is the cost of the name.
    """

    image_source: str
    prompt: str
    accuracy: Estimate
    drop: Estimate | None
    beside_token: Estimate | None


def compare_prompts(
    answers: Mapping[str, Mapping[str, Images]], generator: np.random.Generator, *, token: str = "token"
) -> list[PromptAccuracy]:
    """Compare the prompts and image sources of a class (DI, figure 7), in the given order.

    Args:
        answers: by image source and then by prompt, the answers on each seed; each image source has the
            prompt `BASE`.
        generator: draws the bootstraps.
        token: the image source that the others are compared with.

    Raises:
        InvalidRequest: an image source has no images for `BASE`.
    """
    without = [image_source for image_source, prompts in answers.items() if BASE not in prompts]
    if without:
        raise InvalidRequest(
            f"the image source {without[0]!r} has no images for the prompt {BASE!r}; generate some"
        )
    learned = answers.get(token, {})
    return [
        PromptAccuracy(
            image_source=image_source,
            prompt=prompt,
            accuracy=bootstrap_mean(list(images.values()), generator, bounds=(0.0, 1.0)),
            drop=None if prompt == BASE else _paired(prompts[BASE], images, generator),
            beside_token=None
            if image_source == token
            else _paired(learned.get(prompt, {}), images, generator),
        )
        for image_source, prompts in answers.items()
        for prompt, images in prompts.items()
    ]


def _paired(before: Images, after: Images, generator: np.random.Generator) -> Estimate:
    return bootstrap_mean([before[seed] - after[seed] for seed in before if seed in after], generator)
