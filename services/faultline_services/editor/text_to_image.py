"""Text-to-image as the loaded weights want it: in many guided steps, or in a few of a distilled model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from faultline_core.contract.editor import GenerateItem, GenerateRequest
from faultline_core.editing.consistency import generate_consistently, noise_of_each_step
from faultline_core.editing.denoiser import Cancellation, Denoiser
from faultline_core.editing.generate import generate, starting_noise
from faultline_core.types import Cost
from faultline_services.editor.pipeline import Pipeline


def text_to_image(
    pipeline: Pipeline,
    denoiser: Denoiser,
    items: Sequence[GenerateItem],
    request: GenerateRequest,
    cancelled: Cancellation,
) -> tuple[Tensor, Cost]:
    """Make one picture an item.

    Returns:
        Clean latents (B, C, h, w), and what each picture took.
    """
    steps, seeds, null = request.steps, [item.seed for item in items], pipeline.null
    table = pipeline.schedule.timetable(steps)
    text = pipeline.prompts.encode([item.prompt for item in items])
    distilled = pipeline.schedule.spacing == "distilled"
    with pipeline.denoiser.guided(request.guidance) as guidance:
        if distilled:
            noise = noise_of_each_step(seeds, steps, pipeline.latent_shape).to(null)
            sample = generate_consistently
        else:
            noise = starting_noise(seeds, pipeline.latent_shape).to(null)
            sample = generate
        latents = sample(denoiser, table, noise, text, null, guidance=guidance, cancelled=cancelled)
    # Guidance asks twice a step, with the prompt and without (Ho and Salimans 2022, eq. 6).
    asked = 1 if distilled and guidance == 1.0 else 2
    return latents, Cost(unet_calls=steps, unet_evaluations=asked * steps)
