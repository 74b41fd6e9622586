"""A class of a request for learned tokens: what it learns from, where it stands, how far it goes now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from faultline_core.blobs import BlobStore, cache_key
from faultline_core.class_slot import refuse_slot
from faultline_core.contract.base import Problem
from faultline_core.contract.tokens import (
    DroppedImage,
    LearnTokenItem,
    LearnTokensRequest,
    TokenDescription,
)
from faultline_core.editing.denoiser import Cancellation
from faultline_core.editing.lesson import Draws, Learned, Learning, Lesson, Sample
from faultline_core.editing.textual_inversion import pinned
from faultline_core.errors import DatasetEmpty, InvalidRequest
from faultline_core.types import BlobRef
from faultline_services.editor import token_checkpoint
from faultline_services.editor.pipeline import Pipeline
from faultline_services.editor.token_bundle import TokenBundle
from faultline_services.editor.token_checkpoint import Checkpoint, Recipe
from faultline_services.editor.training_latents import Shown, TrainingLatents


@dataclass(frozen=True)
class Pupil:
    """One class: its readable pictures, where its vectors (k, D) started and stand, where this link ends."""

    item: LearnTokenItem
    recipe: Recipe
    images: tuple[BlobRef, ...]
    draws: Draws
    initial: Tensor
    checkpoint: Checkpoint
    until: int

    def shown(self, sample: Sample) -> Shown:
        """Name the picture of a sample."""
        return self.images[sample.picture], sample.mirrored

    def wanted(self) -> list[Shown]:
        """Name every picture that this link will show."""
        steps = range(self.checkpoint.state.step, self.until)
        return [self.shown(sample) for step in steps for sample in self.draws.samples(step)]

    def lesson(self, latents: TrainingLatents) -> Lesson:
        """Return what the tensors see of it."""
        state = self.checkpoint.state
        return Lesson(self.draws, self.initial, state, self.until, lambda each: latents.of(self.shown(each)))

    def after(self, learned: Learned) -> Checkpoint:
        """Return where it stands after a lesson."""
        losses = (*self.checkpoint.losses, *learned.losses)
        return Checkpoint(learned.state, losses, self.checkpoint.dropped)


class Enrolment:
    """Makes the pupils of a request; each is refused by itself."""

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
            InvalidRequest: its name holds a slot, its initialiser is none of the vocabulary, or its
                checkpoint belongs to another learning.
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
        images = _readable(item, checkpoint.dropped)
        draws = Draws(
            seed=self._request.seed,
            key=item.class_name,
            pictures=len(images),
            templates=len(self._preset.templates.prompts),
            timesteps=self._pipeline.schedule.train_steps,
            batch=self._preset.batch,
            flip=self._preset.flip,
        )
        until = min(step + self._request.link_steps, last)
        return Pupil(item, recipe, images, draws, initial, checkpoint, until)

    def bundle(self, pupil: Pupil, state: Learning) -> TokenBundle:
        """Return the token of a class that has come to its end."""
        preset, vectors = self._preset, state.vectors
        description = TokenDescription(
            class_name=pupil.item.class_name,
            initialiser=_initialiser(pupil.item),
            model=self._pipeline.identity,
            width=vectors.shape[1],
            vectors=vectors.shape[0],
            steps=state.step,
            pin_norm=preset.pin_norm,
            templates=preset.templates.name,
            images=len(pupil.images),
            data_digest=cache_key(images=pupil.images),
            seed=self._request.seed,
        )
        # As the text encoder saw them: the optimiser's own vectors may have any length.
        return TokenBundle(pinned(vectors, pupil.initial) if preset.pin_norm else vectors, description)

    def _recipe(self, item: LearnTokenItem) -> Recipe:
        # Not the number of steps: at a constant rate a token may be taken further than was once planned.
        preset = self._preset.model_dump(mode="json", exclude={"steps"})
        return {
            "class_name": item.class_name,
            "initialiser": _initialiser(item),
            "images": cache_key(images=sorted(item.images)),
            "seed": self._request.seed,
            "model": self._pipeline.identity.model_dump(mode="json"),
            **preset,
        }

    def _checkpoint(self, item: LearnTokenItem, recipe: Recipe, initial: Tensor) -> Checkpoint:
        if item.checkpoint is not None:
            return token_checkpoint.unpack(self._store.get(item.checkpoint), recipe, initial)
        lost = self._latents.unreadable(item.images, self._cancelled)
        dropped = [DroppedImage(image=image, problem=Problem.of(error)) for image, error in lost.items()]
        return Checkpoint(Learning.start(initial), (), tuple(dropped))


def _initialiser(item: LearnTokenItem) -> str:
    return item.initialiser or item.class_name


def _readable(item: LearnTokenItem, dropped: Sequence[DroppedImage]) -> tuple[BlobRef, ...]:
    lost = {each.image for each in dropped}
    # Sorted: in what order a folder is listed shall not decide what is learned.
    images = tuple(sorted(image for image in item.images if image not in lost))
    if images:
        return images
    if not dropped:
        raise DatasetEmpty(f"the class {item.class_name!r} has no image")
    raise DatasetEmpty(
        f"none of the {len(item.images)} images of {item.class_name!r} can be read; "
        f"{dropped[0].image!r}: {dropped[0].problem.detail}"
    )
