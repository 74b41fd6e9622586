"""One class under several prompts, by token and class name: what a failure is due to (DI, section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from faultline_core.errors import InvalidRequest
from faultline_core.shifts import BASE
from faultline_core.statistics import bootstrap_mean
from faultline_core.types import Estimate

Pictures = Mapping[int, float]
"""Seed → whether a classifier was right on its picture, or p(true class)."""


@dataclass(frozen=True)
class PromptAccuracy:
    """A classifier's accuracy on one prompt's pictures by one source.

    ``drop`` is what the prompt costs beside the base of the same source, over the seeds that both have;
    ``beside_token`` is by how much the class name's pictures do worse than the token's of the same prompt
    and seeds, None for the token's own: at the base it is what the name alone confounds.
    """

    source: str
    prompt: str
    accuracy: Estimate
    drop: Estimate | None
    beside_token: Estimate | None


def compare_prompts(
    answers: Mapping[str, Mapping[str, Pictures]], generator: np.random.Generator, *, token: str = "token"
) -> list[PromptAccuracy]:
    """Put a class's prompts and sources side by side (DI, figure 7), in the order given.

    ``answers`` maps a source to its prompts, by name; `BASE` is one of them in each. Other sources than
    ``token`` are held against it.

    Raises:
        InvalidRequest: a source lacks the base.
    """
    without = [source for source, prompts in answers.items() if BASE not in prompts]
    if without:
        raise InvalidRequest(f"the source {without[0]!r} has no pictures of the prompt {BASE!r}")
    learned = answers.get(token, {})
    return [
        PromptAccuracy(
            source=source,
            prompt=prompt,
            accuracy=bootstrap_mean(list(pictures.values()), generator, bounds=(0.0, 1.0)),
            drop=None if prompt == BASE else _paired(prompts[BASE], pictures, generator),
            beside_token=None if source == token else _paired(learned.get(prompt, {}), pictures, generator),
        )
        for source, prompts in answers.items()
        for prompt, pictures in prompts.items()
    ]


def _paired(before: Pictures, after: Pictures, generator: np.random.Generator) -> Estimate:
    return bootstrap_mean([before[seed] - after[seed] for seed in before if seed in after], generator)
