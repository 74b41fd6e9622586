"""Text-to-image by somebody else's scheduler, of which the walk knows only what it does to latents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from faultline_core.editing.driver.evaluation import Evaluation, Owner, Walk
from faultline_core.editing.solvers.ddim import guide


class StepScheduler(Protocol):
    """A sampler for one walk: it may remember what it was told, so that a walk needs one of its own.

    The smallest one, which asks once and takes the answer for the image:

        class Once:
            timesteps = (999,)

            def begin(self, noise):
                return noise

            def seen(self, latents, index):
                return latents

            def advance(self, latents, output, index):
                return output
    """

    @property
    def timesteps(self) -> Sequence[float]:
        """What the network is asked at, one evaluation each; a level may come twice."""
        ...

    def begin(self, noise: Tensor) -> Tensor:
        """Scale unit noise (B, C, H, W) to what the walk begins with."""
        ...

    def seen(self, latents: Tensor, index: int) -> Tensor:
        """Scale latents (B, C, H, W) to what the network is shown at evaluation ``index``."""
        ...

    def advance(self, latents: Tensor, output: Tensor, index: int) -> Tensor:
        """Return latents (B, C, H, W) after evaluation ``index``, whose guided output is given."""
        ...


def scheduled_walk(
    scheduler: StepScheduler,
    noise: Tensor,
    text: Tensor,
    null: Tensor,
    *,
    guidance: float,
    owners: Sequence[Owner],
) -> Walk[Tensor]:
    """Denoise (B, C, H, W) under prompts (B, L, D) and the empty prompt (L, D) into clean latents.

    With guidance 1 the empty prompt is not asked about.
    """
    latents, nulls = scheduler.begin(noise), null.expand(text.shape)
    for index, timestep in enumerate(scheduler.timesteps):
        seen = scheduler.seen(latents, index)
        asked = [text] if guidance == 1.0 else [text, nulls]
        cond, *uncond = yield [
            Evaluation(timestep=timestep, latents=seen, text=words, owners=owners) for words in asked
        ]
        output = guide(uncond[0].output, cond.output, guidance) if uncond else cond.output
        latents = scheduler.advance(latents, output, index)
    return latents
