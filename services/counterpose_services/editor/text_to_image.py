"""Text-to-image: prompts with or without learned tokens, and the solver that the loaded weights need."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_core.editing.driver.evaluation import Walk
from counterpose_core.editing.generate import (
    GuidedPrompts,
    consistency_walk,
    drawn_noise,
    generate_walk,
    generators_of,
    noise_of_each_step,
    scheduled_walk,
    starting_noise,
)
from counterpose_core.types import BlobRef, Cost
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.pipeline import Pipeline
from counterpose_services.editor.tokens.files import unpack_bundle
from counterpose_services.editor.unet.schedulers import DiffusersScheduler


def text_to_image(
    call: EngineCall, request: GenerateRequest, items: Sequence[GenerateItem], text: Tensor
) -> tuple[Tensor, list[Cost]]:
    """Generate one image for each item.

    Args:
        call: the current call.
        request: steps, guidance and scheduler.
        items: the B items, whose seeds give the noise.
        text: their embedded prompts (B, L, D).

    Returns:
        Clean latents (B, C, h, w), and the cost of each image.

    Raises:
        InvalidRequest: the scheduler does not support this number of steps.
    """
    owners, pipeline, seeds = range(len(items)), call.pipeline, [item.seed for item in items]
    mode, guidance = pipeline.denoiser.guided(request.guidance)
    runner = call.runner(mode)
    prompts = GuidedPrompts(text=text, null=pipeline.null, guidance=guidance, owners=owners)
    latents = runner.run(_walk(pipeline, request, seeds, prompts))
    return latents, [runner.cost(owner) for owner in owners]


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


class LearnedWords:
    """Embeds prompts with and without learned tokens; a bad bundle fails only its own items."""

    def __init__(self, pipeline: Pipeline, store: BlobStore) -> None:
        self._pipeline, self._store = pipeline, store
        self._vectors: dict[BlobRef, Tensor] = {}

    def check(self, item: GenerateItem) -> None:
        """Refuse an item that cannot be generated.

        Raises:
            ArtifactMissing: there is no such bundle.
            ModelFormatRefused: the bytes are not a bundle.
            InvalidRequest: the bundle belongs to other weights, or the prompt has no slot for it.
            PromptTooLong: the prompt with its vectors is too long.
        """
        vectors = 0 if item.token is None else len(self._read(item.token))
        self._pipeline.prompts.tokenize(item.prompt, vectors)

    def encode(self, items: Sequence[GenerateItem]) -> Tensor:
        """Embed checked prompts, with or without tokens, into (N, L, D)."""
        prompts = self._pipeline.prompts
        plain = [row for row, item in enumerate(items) if item.token is None]
        slotted = [(row, item.token) for row, item in enumerate(items) if item.token is not None]
        if not slotted:
            return prompts.encode([item.prompt for item in items])
        learned = prompts.encode_learned(
            [items[row].prompt for row, _ in slotted], [self._read(token) for _, token in slotted]
        )
        if not plain:
            return learned
        embedded = torch.cat([prompts.encode([items[row].prompt for row in plain]), learned])
        order = [*plain, *(row for row, _ in slotted)]
        return embedded[[order.index(row) for row in range(len(items))]]

    def _read(self, token: BlobRef) -> Tensor:
        if token not in self._vectors:
            bundle = unpack_bundle(self._store.get(token))
            bundle.require_fit(self._pipeline.identity, self._pipeline.prompts.width)
            self._vectors[token] = bundle.vectors.to(self._pipeline.null)
        return self._vectors[token]
