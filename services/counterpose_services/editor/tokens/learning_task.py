"""A class of a request for learned tokens: its images, its state and the last step of this link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from counterpose_core.blobs import cache_key
from counterpose_core.contract.base import Problem
from counterpose_core.contract.tokens import DroppedImage, LearnTokenItem, LearnTokensRequest
from counterpose_core.editing.training_task import Learned, Learning, Sample, SampleStream, TokenTask
from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.text.class_prompts import refuse_slot
from counterpose_core.types import BlobRef
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.tokens.files import Checkpoint, Recipe, unpack_checkpoint
from counterpose_services.editor.tokens.training_latents import Shown, TrainingLatents


@dataclass(frozen=True, order=True)
class ClassImage:
    """An image of a class by its digest, with its individual prompt, if it has one."""

    image: BlobRef
    prompt: str = ""


@dataclass(frozen=True)
class LearningTask:
    """One class: its readable images, its initial vectors (k, D), its checkpoint and its last step."""

    item: LearnTokenItem
    recipe: Recipe
    images: tuple[ClassImage, ...]
    stream: SampleStream
    initial: Tensor
    checkpoint: Checkpoint
    until: int

    @property
    def initialiser(self) -> str:
        """The words whose mean embedding is the initial value."""
        return initialiser_of(self.item)

    def shown(self, sample: Sample) -> Shown:
        """Return the image of a sample and whether it is mirrored."""
        return self.images[sample.image].image, sample.mirrored

    def samples(self) -> list[Sample]:
        """Return all samples of this link."""
        steps = range(self.checkpoint.state.step, self.until)
        return [sample for step in steps for sample in self.stream.samples(step)]

    def prompts(self) -> list[str]:
        """Return the individual prompts of the images of this link."""
        if self.item.prompts is None:
            return []
        return [self.images[number].prompt for number in sorted({each.image for each in self.samples()})]

    def token_task(self, latents: TrainingLatents, numbers: Mapping[str, int]) -> TokenTask:
        """Return the task for training; ``numbers`` are the indices of the images' individual prompts."""

        def prompt(sample: Sample) -> int:
            return numbers[self.images[sample.image].prompt] if self.item.prompts else sample.template

        def shown(sample: Sample) -> Tensor:
            return latents.of(self.shown(sample))

        return TokenTask(self.stream, self.initial, self.checkpoint.state, self.until, shown, prompt)

    def after(self, learned: Learned) -> Checkpoint:
        """Return the checkpoint after training."""
        losses = (*self.checkpoint.losses, *learned.losses)
        return Checkpoint(learned.state, losses, self.checkpoint.dropped)


def learning_task(
    call: EngineCall, request: LearnTokensRequest, item: LearnTokenItem, latents: TrainingLatents
) -> LearningTask:
    """Return the learning task of a class, from its checkpoint if it has one.

    Args:
        call: the current call.
        request: the preset, the seed and the steps of this link.
        item: the class.
        latents: reads its images.

    Raises:
        InvalidRequest: the class name contains a slot, the initialiser is not in the vocabulary, an
            individual prompt has no slot, or the checkpoint belongs to another training.
        PromptTooLong: an individual prompt is too long.
        DatasetEmpty: no image of the class can be read.
    """
    refuse_slot(item.class_name)
    preset = request.preset
    initial = call.pipeline.prompts.mean_embedding(initialiser_of(item)).repeat(preset.vectors, 1)
    recipe = _recipe(call, request, item)
    if item.checkpoint is not None:
        checkpoint = unpack_checkpoint(call.store.get(item.checkpoint), recipe, initial)
    else:
        checkpoint = Checkpoint(Learning.start(initial), (), _dropped(call, request, item, latents))
    step = checkpoint.state.step
    if step > preset.steps:
        raise InvalidRequest(
            f"the checkpoint of {item.class_name!r} has {step} steps, more than the preset's {preset.steps}; "
            "raise steps"
        )
    images = _readable(item, checkpoint.dropped)
    stream = SampleStream(
        seed=request.seed,
        key=item.class_name,
        images=len(images),
        templates=len(preset.templates.prompts),
        timesteps=call.pipeline.schedule.train_steps,
        batch=preset.batch,
        flip=preset.flip,
    )
    until = min(step + request.link_steps, preset.steps)
    return LearningTask(item, recipe, images, stream, initial, checkpoint, until)


def initialiser_of(item: LearnTokenItem) -> str:
    """Return the words whose mean embedding is a class's initial value."""
    return item.initialiser or item.class_name


def _recipe(call: EngineCall, request: LearnTokensRequest, item: LearnTokenItem) -> Recipe:
    # Without the number of steps, because a token may be trained longer than first planned, and without the
    # interpolation weights, which do not affect the training.
    preset = request.preset.model_dump(mode="json", exclude={"steps", "interpolation_weights"})
    return {
        "class_name": item.class_name,
        "initialiser": initialiser_of(item),
        "images": cache_key(images=[[each.image, each.prompt] for each in sorted(_images(item))]),
        "seed": request.seed,
        "model": call.pipeline.identity.model_dump(mode="json"),
        **preset,
    }


def _dropped(
    call: EngineCall, request: LearnTokensRequest, item: LearnTokenItem, latents: TrainingLatents
) -> tuple[DroppedImage, ...]:
    """Check all prompts and images in the first link, so that no class is refused half-way."""
    for prompt in item.prompts or []:
        call.pipeline.prompts.tokenize(prompt, request.preset.vectors)
    lost = latents.unreadable(item.images, call.cancelled)
    return tuple(DroppedImage(image=image, problem=Problem.of(error)) for image, error in lost.items())


def _images(item: LearnTokenItem) -> list[ClassImage]:
    prompts = item.prompts or [""] * len(item.images)
    return [ClassImage(image, prompt) for image, prompt in zip(item.images, prompts, strict=True)]


def _readable(item: LearnTokenItem, dropped: Sequence[DroppedImage]) -> tuple[ClassImage, ...]:
    lost = {each.image for each in dropped}
    # Sorted, so that the order of a folder's listing does not affect the training.
    found = tuple(sorted(each for each in _images(item) if each.image not in lost))
    if found:
        return found
    if not dropped:
        raise DatasetEmpty(f"the class {item.class_name!r} has no image; add some")
    raise DatasetEmpty(
        f"none of the {len(item.images)} images of {item.class_name!r} can be read; the first is "
        f"{dropped[0].image!r}: {dropped[0].problem.detail}"
    )
