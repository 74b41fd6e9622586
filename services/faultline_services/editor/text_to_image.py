"""Text-to-image as the loaded weights want it: in many guided steps, or in a few of a distilled model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from faultline_core.contract.editor import GenerateItem, GenerateRequest
from faultline_core.editing.consistency import consistency_walk, noise_of_each_step
from faultline_core.editing.denoiser import Cancellation, Denoiser
from faultline_core.editing.driver import Driver
from faultline_core.editing.generate import generate_walk, starting_noise
from faultline_core.types import Cost
from faultline_services.editor.pipeline import Pipeline


def text_to_image(
    pipeline: Pipeline,
    denoiser: Denoiser,
    items: Sequence[GenerateItem],
    text: Tensor,
    request: GenerateRequest,
    cancelled: Cancellation,
) -> tuple[Tensor, list[Cost]]:
    """Make one picture an item under its prompt, embedded in ``text`` (B, L, D).

    Returns:
        Clean latents (B, C, h, w), and what each picture took.
    """
    driver, owners, null = Driver(denoiser, cancelled=cancelled), range(len(items)), pipeline.null
    table = pipeline.schedule.timetable(request.steps)
    seeds = [item.seed for item in items]
    with pipeline.denoiser.guided(request.guidance) as guidance:
        if pipeline.schedule.spacing == "distilled":
            noise = noise_of_each_step(seeds, request.steps, pipeline.latent_shape).to(null)
            walk = consistency_walk(table, noise, text, null, guidance=guidance, owners=owners)
        else:
            noise = starting_noise(seeds, pipeline.latent_shape).to(null)
            walk = generate_walk(table, noise, text, null, guidance=guidance, owners=owners)
        latents = driver.run(walk)
    return latents, [driver.cost(owner) for owner in owners]
