"""What an inpainting checkpoint is told of each image, beside its caption."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from counterpose_core.images.codecs import decode_image
from counterpose_services.editor.caches import CaptionedImage
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.edits.regions import latent_region, pixel_region
from counterpose_services.editor.latent_codec import centre_crop


def conditioned(call: EngineCall, images: Sequence[CaptionedImage], text: Tensor) -> Tensor:
    """Return text (N, L, D), one for each image, with the conditions of its image if the UNet takes any."""
    layout = call.pipeline.denoiser.inpainting
    if layout is None:
        return text
    return layout.carried(text, torch.stack([_of(call, image, layout.whole) for image in images]))


def null_texts(call: EngineCall, images: Sequence[CaptionedImage]) -> Tensor:
    """Return the empty prompt: one (L, D), or with the conditions of each image (N, L + k, D)."""
    null = call.pipeline.null
    if call.pipeline.denoiser.inpainting is None:
        return null
    return conditioned(call, images, null.expand(len(images), *null.shape))


def _of(call: EngineCall, image: CaptionedImage, whole: Tensor) -> Tensor:
    """Return the mask of what may change, and the latents of the rest with that blank (C + 1, h, w)."""
    if image.region is None:
        return whole
    if image not in call.conditions:
        pipeline, store = call.pipeline, call.store
        region = pixel_region(pipeline, store, image.image, image.region)
        pixels = centre_crop(decode_image(store.get(image.image)), pipeline.codec.resolution)
        latents = pipeline.codec.encode([pixels], blank=[region])[0]
        grid = latent_region(pipeline, store, image.image, image.region)
        call.conditions[image] = torch.cat([grid[None].to(latents), latents])
    return call.conditions[image]
