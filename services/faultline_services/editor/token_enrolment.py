"""How classes are taken into a request for learned tokens: each is refused by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from faultline_core.blobs import BlobStore, cache_key
from faultline_core.class_slot import refuse_slot
from faultline_core.contract.base import Problem
from faultline_core.contract.tokens import (
    OWN_PROMPTS,
    DroppedImage,
    LearnTokenItem,
    LearnTokensRequest,
    TokenDescription,
)
from faultline_core.editing.denoiser import Cancellation
from faultline_core.editing.lesson import Draws, Learning
from faultline_core.editing.textual_inversion import pinned
from faultline_core.errors import DatasetEmpty, InvalidRequest
from faultline_services.editor import token_checkpoint
from faultline_services.editor.pipeline import Pipeline
from faultline_services.editor.token_bundle import TokenBundle
from faultline_services.editor.token_checkpoint import Checkpoint, Recipe
from faultline_services.editor.token_pupils import Picture, Pupil
from faultline_services.editor.training_latents import TrainingLatents


class Enrolment:
    """Makes the pupils of a request, and the bundles of those who have come to their end."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: BlobStore,
        latents: TrainingLatents,
        request: LearnTokensRequest,
        cancelled: Cancellation,
    ) -> None:
        self._pipeline, self._store, self._latents = pipeline, store, latents
        self._request, self._preset, self._cancelled = request, request.preset, cancelled

    def pupil(self, item: LearnTokenItem) -> Pupil:
        """Find out what a class learns from and where it stands.

        Raises:
            InvalidRequest: its name holds a slot, its initialiser is none of the vocabulary, a prompt of its
                own has no slot, or its checkpoint belongs to another learning.
            PromptTooLong: a prompt of its own does not fit.
            DatasetEmpty: it has no picture that can be read.
        """
        refuse_slot(item.class_name)
        start = self._pipeline.prompts.mean_embedding(_initialiser(item))
        initial, recipe = start.repeat(self._preset.vectors, 1), self._recipe(item)
        checkpoint = self._checkpoint(item, recipe, initial)
        step, last = checkpoint.state.step, self._preset.steps
        if step > last:
            raise InvalidRequest(
                f"{item.class_name!r} has taken {step} steps, more than the {last} asked for"
            )
        pictures = _readable(item, checkpoint.dropped)
        draws = Draws(
            seed=self._request.seed,
            key=item.class_name,
            pictures=len(pictures),
            templates=len(self._preset.templates.prompts),
            timesteps=self._pipeline.schedule.train_steps,
            batch=self._preset.batch,
            flip=self._preset.flip,
        )
        until = min(step + self._request.link_steps, last)
        return Pupil(item, recipe, pictures, draws, initial, checkpoint, until)

    def bundle(self, pupil: Pupil, state: Learning, share: float) -> TokenBundle:
        """Return the token of a class that has come to its end, at a share of the way that it went."""
        preset, vectors = self._preset, state.vectors
        description = TokenDescription(
            class_name=pupil.item.class_name,
            initialiser=_initialiser(pupil.item),
            model=self._pipeline.identity,
            width=vectors.shape[1],
            vectors=vectors.shape[0],
            steps=state.step,
            pin_norm=preset.pin_norm,
            share=share,
            templates=preset.templates.name if pupil.item.prompts is None else OWN_PROMPTS,
            images=len(pupil.pictures),
            data_digest=cache_key(images=[each.image for each in pupil.pictures]),
            seed=self._request.seed,
        )
        # As the text encoder saw them: the optimiser's own vectors may have any length.
        seen = pinned(vectors, pupil.initial) if preset.pin_norm else vectors
        mixed = torch.lerp(pupil.initial, seen, share)
        return TokenBundle(pinned(mixed, pupil.initial) if preset.pin_norm else mixed, description)

    def _recipe(self, item: LearnTokenItem) -> Recipe:
        # Not the number of steps: at a constant rate a token may be taken further than was once planned. Nor
        # the shares, which change nothing of how it is learned.
        preset = self._preset.model_dump(mode="json", exclude={"steps", "shares"})
        return {
            "class_name": item.class_name,
            "initialiser": _initialiser(item),
            "images": cache_key(images=[[each.image, each.prompt] for each in sorted(_pictures(item))]),
            "seed": self._request.seed,
            "model": self._pipeline.identity.model_dump(mode="json"),
            **preset,
        }

    def _checkpoint(self, item: LearnTokenItem, recipe: Recipe, initial: Tensor) -> Checkpoint:
        if item.checkpoint is not None:
            return token_checkpoint.unpack(self._store.get(item.checkpoint), recipe, initial)
        # At the first link alone: that none is refused half-way.
        for prompt in item.prompts or []:
            self._pipeline.prompts.tokenize(prompt, self._preset.vectors)
        lost = self._latents.unreadable(item.images, self._cancelled)
        dropped = [DroppedImage(image=image, problem=Problem.of(error)) for image, error in lost.items()]
        return Checkpoint(Learning.start(initial), (), tuple(dropped))


def _initialiser(item: LearnTokenItem) -> str:
    return item.initialiser or item.class_name


def _pictures(item: LearnTokenItem) -> list[Picture]:
    prompts = item.prompts or [""] * len(item.images)
    return [Picture(image, prompt) for image, prompt in zip(item.images, prompts, strict=True)]


def _readable(item: LearnTokenItem, dropped: Sequence[DroppedImage]) -> tuple[Picture, ...]:
    lost = {each.image for each in dropped}
    # Sorted: in what order a folder is listed shall not decide what is learned.
    found = tuple(sorted(each for each in _pictures(item) if each.image not in lost))
    if found:
        return found
    if not dropped:
        raise DatasetEmpty(f"the class {item.class_name!r} has no image")
    raise DatasetEmpty(
        f"none of the {len(item.images)} images of {item.class_name!r} can be read; "
        f"{dropped[0].image!r}: {dropped[0].problem.detail}"
    )
