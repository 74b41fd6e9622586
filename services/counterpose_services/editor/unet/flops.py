"""Floating-point operations of a pipeline's networks, counted on the meta device."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from diffusers import AutoencoderKL, AutoencoderTiny, UNet2DConditionModel
from torch.utils.flop_counter import FlopCounterMode

from counterpose_core.editing.denoiser import EvaluationFlops
from counterpose_core.types import Cost, Decoder
from counterpose_services.editor.unet.added_conditions import AddedConditions

KEPT = 64
"""Number of cached configurations and shapes; a process loads one or two."""


@dataclass(frozen=True)
class PipelineFlops:
    """Operations of one evaluation, and of encoding and decoding one image; a multiply-add counts as two.

    ``preview`` is for decoding by the small autoencoder, 0 if there is none.
    """

    evaluation: EvaluationFlops
    encode: int
    decode: int
    preview: int = 0

    def encoding(self, images: int) -> Cost:
        """Return the cost of encoding images to latents."""
        return Cost(vae_passes=images, flops=images * self.encode)

    def decoding(self, images: int, decoder: Decoder = "full") -> Cost:
        """Return the cost of decoding latents to images."""
        one = self.preview if decoder == "preview" else self.decode
        return Cost(vae_passes=images, flops=images * one)


def evaluation_flops(
    unet: UNet2DConditionModel, latents: tuple[int, int, int], text: tuple[int, int]
) -> EvaluationFlops:
    """Count the operations for one sample (C, H, W) with a text (L, D).

    Backward is the gradient of the text embedding with frozen weights (Mokady et al. 2022). Attention maps
    that a control computes in addition to plain attention are not counted.
    """
    return _evaluation_flops(_key(unet), latents, text)


def autoencoder_flops(vae: AutoencoderKL, latents: tuple[int, int, int], resolution: int) -> tuple[int, int]:
    """Count the operations of encoding and of decoding one square image."""
    return _autoencoder_flops(_key(vae), latents, resolution)


def preview_flops(preview: AutoencoderTiny, latents: tuple[int, int, int]) -> int:
    """Count the operations of decoding one image by a small autoencoder."""
    return _preview_flops(_key(preview), latents)


def pipeline_flops(
    unet: UNet2DConditionModel,
    vae: AutoencoderKL,
    preview: AutoencoderTiny | None,
    latents: tuple[int, int, int],
    text: tuple[int, int],
) -> PipelineFlops:
    """Count the operations of all networks.

    Args:
        unet: the network that is evaluated.
        vae: the autoencoder.
        preview: the small autoencoder, if the suite has one.
        latents: the shape (C, H, W) of one image's latents.
        text: the shape (L, D) of one embedded prompt.
    """
    # Every block of the autoencoder except the last doubles the sides.
    resolution = latents[1] * 2 ** (len(vae.config.block_out_channels) - 1)
    encode, decode = autoencoder_flops(vae, latents, resolution)
    previewed = 0 if preview is None else preview_flops(preview, latents)
    return PipelineFlops(evaluation_flops(unet, latents, text), encode, decode, previewed)


def _key(model: UNet2DConditionModel | AutoencoderKL | AutoencoderTiny) -> str:
    # Private entries contain the file's name and the library's version.
    config = {name: value for name, value in model.config.items() if not name.startswith("_")}
    return json.dumps(config, sort_keys=True)


def _meta_copy(kind: type[Any], config: str) -> Any:
    with torch.device("meta"):
        return kind.from_config(json.loads(config)).eval().requires_grad_(requires_grad=False)


@lru_cache(maxsize=KEPT)
def _evaluation_flops(config: str, latents: tuple[int, int, int], text: tuple[int, int]) -> EvaluationFlops:
    unet = _meta_copy(UNet2DConditionModel, config)
    # An inpainting checkpoint takes more channels than the latents have.
    sample = torch.empty(1, int(unet.config.in_channels), *latents[1:], device="meta")
    time = torch.zeros(1, device="meta")
    embedding = torch.empty(1, *text, device="meta", requires_grad=True)
    # The count does not depend on the sizes that the network is told.
    conditions = AddedConditions.of(unet.config, side=0)
    # The meta device has no fused attention, so its two matrix products are counted separately.
    with FlopCounterMode(display=False) as counter, torch.enable_grad():
        words, added = (embedding, None) if conditions is None else conditions.split(embedding)
        output = unet(sample, time, words, added_cond_kwargs=added, return_dict=False)[0]
        forward = int(counter.get_total_flops())
        output.sum().backward()
    return EvaluationFlops(forward=forward, backward=int(counter.get_total_flops()) - forward)


@lru_cache(maxsize=KEPT)
def _autoencoder_flops(config: str, latents: tuple[int, int, int], resolution: int) -> tuple[int, int]:
    vae = _meta_copy(AutoencoderKL, config)
    image = torch.empty(1, 3, resolution, resolution, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as encoding:
        vae.encode(image)
    with torch.no_grad(), FlopCounterMode(display=False) as decoding:
        vae.decode(torch.empty(1, *latents, device="meta"))
    return int(encoding.get_total_flops()), int(decoding.get_total_flops())


@lru_cache(maxsize=KEPT)
def _preview_flops(config: str, latents: tuple[int, int, int]) -> int:
    preview = _meta_copy(AutoencoderTiny, config)
    with torch.no_grad(), FlopCounterMode(display=False) as decoding:
        preview.decode(torch.empty(1, *latents, device="meta"))
    return int(decoding.get_total_flops())
