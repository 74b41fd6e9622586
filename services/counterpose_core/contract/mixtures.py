"""A mixture of prompts whose shares are known, and how often a classifier fails on its images."""

from __future__ import annotations

import math

from pydantic import Field, model_validator

from counterpose_core.contract.base import ClientBody, require_distinct
from counterpose_core.contract.shift_benchmarks import ShiftText

LEAST_IMAGES = 8
"""Images of a mixture for each of its prompts, at least."""
_ROUNDING = 1e-9
"""By which shares that are written in decimals may miss their sum."""


class MixtureComponent(ClientBody):
    """One prompt of a mixture, and how often it is drawn."""

    prompt: ShiftText
    """A prompt with the slot `<class>`, such as `a photo of a <class> in the snow`."""
    share: float = Field(gt=0.0, le=1.0)
    """The share of all images that are drawn from it, in (0, 1]."""


class Mixture(ClientBody):
    """Prompts with their shares of all images; what they leave is the label alone."""

    images: int = Field(default=1000, ge=LEAST_IMAGES, le=1_000_000)
    """Most images of each label for its rate, of the budget: at most a quarter of them shows where failures
    are, and the others are divided so that the rate varies least. At least 8 for each prompt, the label alone
    among them."""
    components: list[MixtureComponent] = Field(min_length=1, max_length=100)
    """The prompts, each once; their shares add up to 1 at most."""

    @property
    def alone(self) -> float:
        """The share of the label alone, in [0, 1]."""
        left = 1.0 - math.fsum(each.share for each in self.components)
        return left if left > _ROUNDING else 0.0

    @model_validator(mode="after")
    def _whole(self) -> Mixture:
        require_distinct([each.prompt for each in self.components])
        total = math.fsum(each.share for each in self.components)
        if total > 1.0 + _ROUNDING:
            raise ValueError(f"the shares add up to {total:g}, above 1; lower some")
        prompts = len(self.components) + (self.alone > 0.0)
        if self.images < LEAST_IMAGES * prompts:
            raise ValueError(
                f"{self.images} images are too few for {prompts} prompts, the label alone among them; allow "
                f"{LEAST_IMAGES * prompts}"
            )
        return self
