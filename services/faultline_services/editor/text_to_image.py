"""Text-to-image as the loaded weights want it, in many guided steps or few, or by a named scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from faultline_core.contract.editor import GenerateItem, GenerateRequest
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.driver.evaluation import Walk
from faultline_core.editing.generate import (
    GuidedPrompts,
    consistency_walk,
    drawn_noise,
    generate_walk,
    generators_of,
    noise_of_each_step,
    scheduled_walk,
    starting_noise,
)
from faultline_core.types import Cost
from faultline_services.editor.call import EngineCall
from faultline_services.editor.pipeline import Pipeline
from faultline_services.editor.unet.schedulers import DiffusersScheduler


def text_to_image(
    call: EngineCall, request: GenerateRequest, items: Sequence[GenerateItem], text: Tensor
) -> tuple[Tensor, list[Cost]]:
    """Make one image an item under its prompt.

    Args:
        call: the call under way.
        request: steps, guidance and scheduler.
        items: the B items, whose seeds give the noise.
        text: their embedded prompts (B, L, D).

    Returns:
        Clean latents (B, C, h, w), and what each image took.

    Raises:
        InvalidRequest: the scheduler does not take so many steps.
    """
    driver, owners = Driver(call.denoiser, cancelled=call.cancelled), range(len(items))
    pipeline, seeds = call.pipeline, [item.seed for item in items]
    with pipeline.denoiser.guided(request.guidance) as guidance:
        prompts = GuidedPrompts(text=text, null=pipeline.null, guidance=guidance, owners=owners)
        latents = driver.run(_walk(pipeline, request, seeds, prompts))
    return latents, [driver.cost(owner) for owner in owners]


def _walk(
    pipeline: Pipeline, request: GenerateRequest, seeds: Sequence[int], prompts: GuidedPrompts
) -> Walk[Tensor]:
    shape, null = pipeline.latent_shape, pipeline.null
    if request.scheduler is not None:
        generators = generators_of(seeds)
        noise = drawn_noise(generators, shape).to(null)
        scheduler = DiffusersScheduler(
            request.scheduler,
            pipeline.scheduler_config,
            steps=request.steps,
            generators=generators,
            device=pipeline.device,
        )
        return scheduled_walk(scheduler, noise, prompts)
    table = pipeline.schedule.timetable(request.steps)
    if pipeline.schedule.spacing == "distilled":
        noise = noise_of_each_step(seeds, request.steps, shape).to(null)
        return consistency_walk(table, noise, prompts)
    noise = starting_noise(seeds, shape).to(null)
    return generate_walk(table, noise, prompts)
