"""The parts of a Stable-Diffusion-class pipeline folder, loaded from safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import torch
from diffusers import AutoencoderKL, AutoencoderTiny, UNet2DConditionModel
from torch import Tensor
from transformers import CLIPTextModel, CLIPTextModelWithProjection

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.editor import EditItem, ReconstructItem
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.errors import AttentionNotHooked, ModelFormatRefused
from counterpose_core.suite import EditorSuite
from counterpose_services.editor.caches import CaptionedImage
from counterpose_services.editor.latent_codec import LatentCodec
from counterpose_services.editor.paired_prompts import PairedPromptEncoder
from counterpose_services.editor.prompts import PromptEncoder
from counterpose_services.editor.unet.flops import PipelineFlops, pipeline_flops
from counterpose_services.editor.unet.inpainting import Inpainting
from counterpose_services.editor.unet.lean_blocks import make_lean
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser, schedule_from_config
from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.models.pipeline_configuration import (
    SECOND_TOKENIZER,
    is_null_zero,
    is_sdxl,
    read_configuration,
)
from counterpose_services.models.tokenizers import load_tokenizer
from counterpose_services.models.weights import pipeline_folder, weights_folder


@dataclass(frozen=True)
class Pipeline:
    """The parts that an edit needs; ``null`` is the empty prompt's embedding (L, D), ``flops`` prices work.

    Of Stable Diffusion XL, L is one more than the tokens, and ``null`` is zero if the model was trained so.

    ``preview`` names the small decoder, if the suite has one. Any other scheduler is made from
    ``scheduler_config``, the pipeline's own.
    """

    identity: ModelIdentity
    preview: ModelIdentity | None
    denoiser: UNetDenoiser
    schedule: NoiseSchedule
    scheduler_config: Mapping[str, Any]
    prompts: PromptEncoder | PairedPromptEncoder
    codec: LatentCodec
    latent_shape: tuple[int, int, int]
    null: Tensor
    device: torch.device
    flops: PipelineFlops

    def captioned(self, item: ReconstructItem | EditItem) -> CaptionedImage:
        """Return what is inverted for an item: an inpainting checkpoint is told its region."""
        region = item.region if isinstance(item, EditItem) and self.denoiser.inpainting else None
        return CaptionedImage(item.image, item.caption, region)


def load_pipeline(suite: EditorSuite, root: Path, *, device: str, dtype: str) -> Pipeline:
    """Read a folder that diffusers saved of Stable Diffusion or XL, or of an inpainting checkpoint of either.

    The UNet computes in ``dtype``; autoencoder, text encoders and latents stay in at least float32. SDXL's
    autoencoder overflows in float16, and bfloat16 has too few digits for 256 levels of a pixel.

    Args:
        suite: names the folder and the preview decoder, and gives resolution and batch size.
        root: the folder of all models.
        device: the device of all networks, such as ``cuda:0``.
        dtype: the precision of the UNet, such as ``bfloat16``.

    Raises:
        UnknownModel: the pipeline's folder or the preview decoder's folder does not exist.
        ModelFormatRefused: weights are not safetensors, do not fit their configuration, or are those of a
            pipeline that the editor does not support.
        AttentionNotHooked: its UNet lacks the attention layers that edits control.
    """
    folder = pipeline_folder(root, suite.model, suite.published)
    config = read_configuration(folder / "scheduler" / "scheduler_config.json")
    # What is refused is refused before gigabytes are read.
    schedule = schedule_from_config(config)
    unet_dtype: torch.dtype = getattr(torch, dtype)
    # An inversion sums up to a hundred small steps, and bfloat16 would keep only 8 bits of the sum.
    fine_dtype = torch.promote_types(unet_dtype, torch.float32)
    place = torch.device(device)
    unet = load_fitting(UNet2DConditionModel, folder / "unet", torch_dtype=unet_dtype)
    vae = load_fitting(AutoencoderKL, folder / "vae", torch_dtype=fine_dtype)
    if place.type == "cpu":
        make_lean(unet)
        make_lean(vae)
    prompts = _prompts(folder, fine_dtype, place)
    preview, preview_identity = _preview_decoder(suite, root, fine_dtype, place)
    # Every block of the autoencoder except the last halves the sides.
    side = suite.resolution // 2 ** (len(vae.config.block_out_channels) - 1)
    latent_shape, null = (int(vae.config.latent_channels), side, side), prompts.encode([""])[0]
    codec = LatentCodec(_placed(vae, place), preview, resolution=suite.resolution, batch=suite.batch)
    inpainting = None
    if int(unet.config.in_channels) != latent_shape[0]:
        inpainting = Inpainting(_whole(codec), null.shape[0])
    return Pipeline(
        identity=ModelIdentity(id=suite.model, revision=folder_revision(folder)),
        preview=preview_identity,
        denoiser=_denoiser(unet.to(place), suite, inpainting),
        schedule=schedule,
        scheduler_config=config,
        prompts=prompts,
        codec=codec,
        latent_shape=latent_shape,
        null=torch.zeros_like(null) if is_null_zero(folder) else null,
        device=place,
        flops=pipeline_flops(unet, vae, preview, latent_shape, (null.shape[0], null.shape[1])),
    )


def _placed(vae: AutoencoderKL, place: torch.device) -> AutoencoderKL:
    """Put the autoencoder on its device, in the memory format that is fastest there."""
    # On processors, convolutions of this format decode in nine tenths of the time (n = 12, interleaved). On
    # CUDA, group norm has no kernel for it, and every block would convert twice.
    return vae.to(memory_format=torch.channels_last) if place.type == "cpu" else vae.to(place)


def _prompts(folder: Path, dtype: torch.dtype, place: torch.device) -> PromptEncoder | PairedPromptEncoder:
    tokenizer = load_tokenizer(folder / "tokenizer")
    first = load_fitting(CLIPTextModel, folder / "text_encoder", dtype=dtype).to(place)
    if not is_sdxl(folder):
        return PromptEncoder(tokenizer, first)
    second_tokenizer = load_tokenizer(folder / SECOND_TOKENIZER)
    if tokenizer.get_vocab() != second_tokenizer.get_vocab():
        raise ModelFormatRefused(
            f"the two tokenizers of {folder.name!r} have different vocabularies, and attention is edited by "
            "token; use a pipeline whose tokenizers split words alike"
        )
    second = load_fitting(CLIPTextModelWithProjection, folder / "text_encoder_2", dtype=dtype).to(place)
    return PairedPromptEncoder(tokenizer, first, second, int(second_tokenizer.pad_token_id))


def _preview_decoder(
    suite: EditorSuite, root: Path, dtype: torch.dtype, place: torch.device
) -> tuple[AutoencoderTiny | None, ModelIdentity | None]:
    if suite.preview_decoder is None:
        return None, None
    folder = weights_folder(root, suite.preview_decoder, suite.published)
    preview = load_fitting(AutoencoderTiny, folder, torch_dtype=dtype)
    return preview.to(place), ModelIdentity(id=suite.preview_decoder, revision=folder_revision(folder))


def _whole(codec: LatentCodec) -> Tensor:
    """Return the conditions of an image of which all may change."""
    side = codec.resolution
    blank = np.zeros((side, side, 3), np.uint8)
    latents = codec.encode([blank], blank=[np.ones((side, side), np.bool_)])[0]
    return torch.cat([torch.ones_like(latents[:1]), latents])


def _denoiser(unet: UNet2DConditionModel, suite: EditorSuite, inpainting: Inpainting | None) -> UNetDenoiser:
    try:
        return UNetDenoiser(unet, suite.resolution, inpainting)
    except AttentionNotHooked as error:
        config = unet.config
        blocks = [*config.down_block_types, config.mid_block_type, *config.up_block_types]
        raise AttentionNotHooked(
            f"the UNet of {suite.model!r}, of {', '.join(map(str, blocks))}, has {error.detail}"
        ) from error
