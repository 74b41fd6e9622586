"""Inversions of the images of a call, from the cache or made in batches that fit and cached at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.errors import CounterposeError, InvalidRequest, NumericalFailure, ResourceExhausted
from counterpose_core.images.codecs import Pixels, decode_image
from counterpose_core.types import Cost, Inversion
from counterpose_services.editor.caches import CaptionedImage, InversionCache
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.edits.conditions import conditioned
from counterpose_services.editor.edits.editing import JointNullTextEdits
from counterpose_services.editor.edits.inversion_batch import (
    InvertedBatch,
    InvertedImage,
    invert_batch,
    retry_in_float32,
)
from counterpose_services.editor.edits.results import ItemLatents, ItemResult
from counterpose_services.editor.latent_codec import centre_crop
from counterpose_services.editor.pipeline import Pipeline

UNCONDITIONAL: frozenset[Inversion] = frozenset(("negative-prompt", "null-text"))
"""Inversions that compute embeddings for the unconditional half of guidance."""


@dataclass(frozen=True)
class Inversions:
    """The results for the images of a call: each has an inversion or a problem.

    ``costs`` has the cost of each inversion that was not cached, including the encoding; ``edits`` has the
    edits made during inversion, by item; ``spent`` is the total cost apart from evaluations.
    """

    pixels: Mapping[CaptionedImage, Pixels]
    inverted: Mapping[CaptionedImage, Inverted]
    problems: Mapping[CaptionedImage, CounterposeError]
    costs: Mapping[CaptionedImage, Cost]
    edits: Mapping[int, ItemLatents]
    spent: Cost

    def failed(self, images: Mapping[int, CaptionedImage]) -> dict[int, ItemResult]:
        """Return the problems of items by their ``images``."""
        return {index: self.problems[image] for index, image in images.items() if image in self.problems}


class _Method(Protocol):
    def __call__(self, images: Sequence[CaptionedImage], latents: Tensor, text: Tensor) -> InvertedBatch: ...


_Batch = tuple[Sequence[CaptionedImage], InvertedBatch]


@dataclass(frozen=True)
class _Inverter:
    """Inverts the images that were read, batch by batch."""

    call: EngineCall
    cache: InversionCache
    preset: PromptToPromptPreset
    pixels: Mapping[CaptionedImage, Pixels]

    def invert(self, method: _Method, images: Sequence[CaptionedImage]) -> _Batch:
        """Invert a batch by a method; finite inversions are cached before the next batch begins."""
        pipeline = self.call.pipeline
        latents = pipeline.codec.encode([self.pixels[image] for image in images])
        text = conditioned(self.call, images, pipeline.prompts.encode([image.caption for image in images]))
        batch = method(images, latents, text)
        batch = retry_in_float32(self.call, self.preset, batch, images, latents, text)
        for image, inverted in zip(images, batch.images, strict=True):
            if inverted.finite:
                self.cache.keep(image, self.preset, inverted.inverted)
        return images, batch

    def not_finite(self, image: CaptionedImage, inverted: InvertedImage) -> NumericalFailure:
        """Return the error of an image whose inversion is not finite."""
        precision = self.call.pipeline.denoiser.precision
        tried = f"{precision}{', and again in float32' if inverted.cost.float32_retries else ''}"
        return NumericalFailure(
            f"the {self.preset.inversion} inversion of {image.image!r} is not finite in {tried}"
        )


def invert_images(
    call: EngineCall,
    cache: InversionCache,
    preset: PromptToPromptPreset,
    images: Iterable[CaptionedImage],
    joint: JointNullTextEdits | None = None,
) -> Inversions:
    """Invert each distinct image; one that cannot be read or inverted fails alone.

    Args:
        call: the current call.
        cache: has earlier inversions; each batch is added at once, in case the call ends early.
        preset: the method and its settings.
        images: images with their captions.
        joint: edits the images that are not cached, during their inversion.

    Raises:
        InvalidRequest: the method computes embeddings that the loaded UNet cannot use.
        Cancelled: the caller asked to stop.
    """
    _refuse_unused_embeddings(call.pipeline, preset)
    pixels, problems = _read(call, images)
    cached = {image: found for image in pixels if (found := cache.find(image, preset)) is not None}
    missing, batches = [image for image in pixels if image not in cached], list[_Batch]()
    inverter = _Inverter(call, cache, preset, pixels)
    if joint is not None:
        together = joint.sizer.run(missing, partial(inverter.invert, joint))
        # An image that does not fit together with its edits may fit alone.
        batches, missing = together.results, together.too_large
    sizer, method = call.sizers.of(f"invert {preset.inversion}"), partial(invert_batch, call, preset)
    alone = sizer.run(missing, partial(inverter.invert, method))
    too_large = {image: _too_large(image) for image in alone.too_large}
    return _collect(inverter, cached, problems | too_large, [*batches, *alone.results])


def _refuse_unused_embeddings(pipeline: Pipeline, preset: PromptToPromptPreset) -> None:
    if pipeline.denoiser.inpainting is not None and preset.inversion == "null-text":
        # Its conditions are a part of the text that would be optimised.
        raise InvalidRequest(
            "preset.inversion 'null-text' optimises the text, but the loaded UNet inpaints and is told the "
            "region with it; use 'direct', 'negative-prompt' or 'virtual'"
        )
    if pipeline.denoiser.takes_guidance and preset.inversion in UNCONDITIONAL:
        # Its guidance does not mix two predictions, so an unconditional embedding would have no effect.
        raise InvalidRequest(
            f"preset.inversion {preset.inversion!r} needs guidance by two evaluations, but the loaded UNet "
            f"takes guidance as an input (time_cond_proj_dim); use 'direct' or 'virtual'"
        )


def _read(
    call: EngineCall, images: Iterable[CaptionedImage]
) -> tuple[dict[CaptionedImage, Pixels], dict[CaptionedImage, CounterposeError]]:
    """Return the cropped pixels (side, side, 3) of each distinct image, and the errors of the others."""
    pixels, problems = dict[CaptionedImage, Pixels](), dict[CaptionedImage, CounterposeError]()
    for image in dict.fromkeys(images):
        try:
            call.pipeline.prompts.tokenize(image.caption)
            decoded = decode_image(call.store.get(image.image))
            pixels[image] = centre_crop(decoded, call.pipeline.codec.resolution)
        except CounterposeError as error:
            problems[image] = error
    return pixels, problems


def _too_large(image: CaptionedImage) -> ResourceExhausted:
    return ResourceExhausted(f"inverting {image.image!r} needs more memory than there is")


def _collect(
    inverter: _Inverter,
    cached: Mapping[CaptionedImage, Inverted],
    problems: Mapping[CaptionedImage, CounterposeError],
    batches: Sequence[_Batch],
) -> Inversions:
    flops = inverter.call.pipeline.flops
    pairs = [zip(images, batch.images, strict=True) for images, batch in batches]
    made = {image: found for each in pairs for image, found in each}
    failed = {image: inverter.not_finite(image, found) for image, found in made.items() if not found.finite}
    retries = sum(found.cost.float32_retries for found in made.values())
    return Inversions(
        pixels=inverter.pixels,
        inverted={**cached, **{image: found.inverted for image, found in made.items() if found.finite}},
        problems={**problems, **failed},
        costs={image: found.cost + flops.encoding(1) for image, found in made.items()},
        edits={index: edit for _, batch in batches for index, edit in batch.edits.items()},
        spent=flops.encoding(len(made)) + Cost(float32_retries=retries),
    )
