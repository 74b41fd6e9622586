"""The preview decoder's distance from the full decoder, the cost of both, and its model card."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, AutoencoderTiny, UNet2DConditionModel
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPTextModel

from counterpose_core.types import Estimate
from counterpose_miniature.training.autoencoder import to_tensor
from counterpose_miniature.training.denoiser_quality import Trained, sample_latents
from counterpose_miniature.training.figures import mean, table
from counterpose_miniature.training.images import ImageSet, generator_scenes
from counterpose_miniature.training.publishing import write_card
from counterpose_miniature.training.stage import StageContext
from counterpose_miniature.world.grammar import caption
from counterpose_miniature.world.seeds import VALIDATION

_BATCH = 32
_SAMPLING_STEPS = 20


def measured(
    context: StageContext, preview: AutoencoderTiny, full: AutoencoderKL, *, images: int, generated: int
) -> dict[str, Estimate]:
    """Return PSNRs in dB on validation seeds, for encoded images and for generated latents."""
    held_out = ImageSet(context.work / "images", images, VALIDATION)
    held_out.ensure(context.threads)
    rendered = to_tensor(held_out.load()[0])
    encoded = encode(full, rendered)
    drawn = generated_latents(context, generated)
    shown, wanted = decode(preview, encoded), decode(full, encoded)
    return {
        "preview against full decoder, encoded images": mean(psnr_db(shown, wanted)),
        "preview against full decoder, generated latents": mean(
            psnr_db(decode(preview, drawn), decode(full, drawn))
        ),
        "preview against rendered image": mean(psnr_db(shown, rendered)),
        "full decoder against rendered image": mean(psnr_db(wanted, rendered)),
    }


@torch.no_grad()
def encode(full: AutoencoderKL, images: torch.Tensor) -> torch.Tensor:
    """Return the means of the latents [N, 4, 16, 16] of images [N, 3, 64, 64]."""
    return torch.cat([full.encode(part).latent_dist.mode() for part in images.split(_BATCH)])


@torch.no_grad()
def decode(model: AutoencoderKL | AutoencoderTiny, latents: torch.Tensor) -> torch.Tensor:
    """Return images [N, 3, 64, 64], clamped to -1..1."""
    return torch.cat([model.decode(part).sample for part in latents.split(_BATCH)]).clamp(-1, 1)


def generated_latents(context: StageContext, count: int) -> torch.Tensor:
    """Draw latents [N, 4, 16, 16] of validation captions with the published generator."""
    folder = context.out / "editor"
    denoiser = UNet2DConditionModel.from_pretrained(
        folder / "unet", dtype=torch.float32, local_files_only=True
    )
    encoder = CLIPTextModel.from_pretrained(folder / "text_encoder", dtype=torch.float32)
    captions = [caption(scene) for scene in generator_scenes(range(count), VALIDATION)]
    steps = 2 if context.smoke else _SAMPLING_STEPS
    # An offset below that of every lesson, so that measuring does not affect the training's draws.
    generator = context.generator(-8)
    return sample_latents(Trained(denoiser, encoder).eval(), captions, steps=steps, generator=generator)


def psnr_db(made: torch.Tensor, wanted: torch.Tensor) -> np.ndarray:
    """Return each image's peak signal-to-noise ratio in dB, [N], of images [N, 3, H, W] in -1..1."""
    squared = (made - wanted).double().square().mean(dim=(1, 2, 3))
    return np.asarray(10 * torch.log10(4.0 / squared))


def decoding_gflop(model: AutoencoderKL | AutoencoderTiny) -> float:
    """Return the GFLOP of decoding one image, counted on the meta device."""
    shape = copy.deepcopy(model).to("meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        shape.decode(torch.zeros(1, 4, 16, 16, device="meta"))
    return float(counter.get_total_flops()) / 1e9


def write_preview_card(
    folder: Path, preview: AutoencoderTiny, full: AutoencoderKL, figures: dict[str, Estimate]
) -> None:
    """Write README.md into the preview decoder's folder."""
    channels = preview.config.decoder_block_out_channels[0]
    blocks = ", ".join(map(str, preview.config.num_decoder_blocks))
    about = (
        "The decoder of a `diffusers.AutoencoderTiny` for the latents of `editor/vae`: "
        f"{channels} channels, {blocks} residual blocks at 16, 32 and 64 pixels a side. For images that "
        "are compared and thrown away, not for those that are kept. Weights are half precision for storage: "
        "load them with `dtype=torch.float32` on a CPU. Its encoder is untrained."
    )
    trained = (
        "`python -m counterpose_miniature.training preview`: distilled from the full decoder (the idea is "
        "TAESD's), absolute plus squared error against its images, on latents of the world's training "
        "seeds. Half of them are shaken by noise, as edited latents lie beside what the encoder would say."
    )
    cost = (
        f"Decoding an image takes {decoding_gflop(preview):.3f} GFLOP, {decoding_gflop(full):.3f} in the "
        "full decoder (torch's FlopCounterMode). Validation seeds; the mean of single images' PSNRs with "
        f"its 95 % interval; latents are generated in {_SAMPLING_STEPS} steps."
    )
    title = "Preview decoder of the miniature suite"
    write_card(folder, title, [about, trained, cost, table(figures, "PSNR (dB)")])
