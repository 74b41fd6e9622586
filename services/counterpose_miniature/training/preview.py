"""The preview decoder: the full decoder's images at a tenth of its cost (after TAESD, Boer Bohan 2023)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL, AutoencoderTiny
from torch import nn
from tqdm import tqdm

from counterpose_miniature.training.autoencoder import to_images, to_tensor
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.images import ImageSet
from counterpose_miniature.training.latents import sampled
from counterpose_miniature.training.preview_quality import measured, write_preview_card
from counterpose_miniature.training.stage import (
    Checkpoint,
    StageContext,
    save_array,
    training_stage,
    write_atomically,
)

_PART = 500
_BATCH = 50
# Decoding and encoding again moves an image's latents by 0.06, and generated ones by 0.15, which is their
# distance from the encoder's output. Half of the lessons get noise of up to twice that size.
_SHAKEN = 0.5
_MOST_NOISE = 0.3
STAGE = "preview"
FOLDER = "preview"
# The last of the three convolutions of a residual block, by its place among their activations.
_BRANCH_END = "conv.4"


@dataclass(frozen=True)
class Lessons:
    """Latents float16 [N, 4, 16, 16] and the full decoder's images of these, uint8 [N, 64, 64, 3]."""

    latents: torch.Tensor
    images: np.ndarray


def prepared(context: StageContext, stage: str, full: AutoencoderKL, count: int) -> Lessons:
    """Return the lessons of the first `count` training images, kept in parts in the stage's folder."""
    rendered = ImageSet(context.work / "images", count)
    rendered.ensure(context.threads)
    images = rendered.load()[0]
    folder = context.folder(stage)
    latents, answers = [], []
    for start in tqdm(range(0, count, _PART), desc="lessons"):
        stop = min(start + _PART, count)
        files = [folder / f"{kind}-{start}-{stop}.npy" for kind in ("latents", "images")]
        if not all(file.exists() for file in files):
            drawn = shaken_latents(full, images[start:stop], context.generator(start))
            # Kept in half precision, so the answers are computed from the rounded latents.
            kept = drawn.half()
            for file, array in zip(files, (kept.numpy(), decoded(full, kept)), strict=True):
                save_array(file, array)
        latents.append(np.load(files[0]))
        answers.append(np.load(files[1]))
    return Lessons(torch.from_numpy(np.concatenate(latents)), np.concatenate(answers))


@torch.no_grad()
def shaken_latents(full: AutoencoderKL, images: np.ndarray, generator: torch.Generator) -> torch.Tensor:
    """Draw latents [N, 4, 16, 16] of uint8 images [N, 64, 64, 3]; half get noise of random size."""
    parts = (to_tensor(images[start : start + _BATCH]) for start in range(0, len(images), _BATCH))
    moments = torch.cat([full.encode(part).latent_dist.parameters for part in parts])
    latents = sampled(moments, generator)
    each = (len(latents), 1, 1, 1)
    shaken = torch.rand(each, generator=generator) < _SHAKEN
    size = _MOST_NOISE * torch.rand(each, generator=generator) * shaken
    return latents + size * torch.randn(latents.shape, generator=generator)


@torch.no_grad()
def decoded(full: AutoencoderKL, latents: torch.Tensor) -> np.ndarray:
    """Return the full decoder's images, uint8 [N, 64, 64, 3], of latents [N, 4, 16, 16]."""
    parts = []
    # Half the time of fp32, and 61 dB from its images.
    with torch.autocast("cpu", torch.bfloat16):
        for part in latents.float().split(_BATCH):
            decoded_part = full.decode(part.contiguous(memory_format=torch.channels_last)).sample
            parts.append(to_images(decoded_part))
    return np.concatenate(parts)


@dataclass(frozen=True)
class _Sizes:
    images: int
    held_out: int
    generated: int
    steps: int
    batch: int
    channels: int
    blocks: tuple[int, int, int]
    rate: float = 3e-3


_FULL = _Sizes(images=4_000, held_out=256, generated=64, steps=9_000, batch=8, channels=24, blocks=(3, 2, 0))
_SMOKE = _Sizes(images=16, held_out=4, generated=2, steps=24, batch=4, channels=8, blocks=(1, 1, 0))


@training_stage(STAGE)
def train(context: StageContext, log: logging.Logger) -> dict[str, Any]:
    """Distil the published generator's decoder into the preview decoder, and save it to out/preview."""
    sizes = _SMOKE if context.smoke else _FULL
    full = load_full(context.out)
    lessons = prepared(context, STAGE, full, sizes.images)
    model = build_preview(sizes.channels, sizes.blocks, context.seed)
    recipe = Recipe(steps=sizes.steps, rate=sizes.rate)
    checkpoint = Checkpoint(context.folder(STAGE), "preview.pt")
    fit(model, _loss_of(model, lessons, sizes.batch, context.seed), recipe, checkpoint, log)
    save_preview(model, context.out / FOLDER)
    # Measures the saved model, with its rounding.
    preview = load_preview(context.out)
    figures = measured(context, preview, full, images=sizes.held_out, generated=sizes.generated)
    write_preview_card(context.out / FOLDER, preview, full, figures)
    return {name: figure.model_dump() for name, figure in figures.items()}


def build_preview(channels: int, blocks: tuple[int, int, int], seed: int) -> AutoencoderTiny:
    """Return an untrained preview decoder with these numbers of residual blocks at 16, 32 and 64 pixels."""
    torch.manual_seed(seed)
    model = AutoencoderTiny(
        # The encoder is unused; two convolutions of four channels are the minimum of the class.
        encoder_block_out_channels=(4,),
        num_encoder_blocks=(0,),
        decoder_block_out_channels=(channels,) * len(blocks),
        num_decoder_blocks=blocks,
        act_fn="silu",
    )
    model.encoder.requires_grad_(False)
    _initialise(model.decoder)
    return model.to(memory_format=torch.channels_last)


@torch.no_grad()
def _initialise(decoder: nn.Module) -> None:
    """Use He's initialisation (He et al. 2015), with small residual branches and a grey image at first."""
    # PyTorch's default has a sixth of the variance, and gave 0.9 dB less after 1,200 steps.
    for name, module in decoder.named_modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                module.bias.zero_()
            if name.endswith(_BRANCH_END):
                module.weight *= 0.3
    last = [module for module in decoder.modules() if isinstance(module, nn.Conv2d)][-1]
    last.weight *= 0.1
    # The decoder's output is in 0..1 and shifted to -1..1 afterwards.
    assert last.bias is not None
    last.bias += 0.5


def load_full(weights: Path) -> AutoencoderKL:
    """Return the autoencoder of the generator among these weights."""
    folder = weights / "editor" / "vae"
    # Otherwise a missing folder would be looked up on the Hugging Face Hub.
    model = AutoencoderKL.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model.to(memory_format=torch.channels_last).eval()


def load_preview(weights: Path) -> AutoencoderTiny:
    """Return the preview decoder among these weights."""
    model = AutoencoderTiny.from_pretrained(weights / FOLDER, dtype=torch.float32, local_files_only=True)
    return model.to(memory_format=torch.channels_last).eval()


def save_preview(model: AutoencoderTiny, folder: Path) -> None:
    """Save the weights as fp16 safetensors with their configuration; the model is not changed."""
    model.half().save_pretrained(folder, safe_serialization=True)
    model.float()
    file = folder / "config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    # The class saves this entry but does not accept it, and warns whenever it is loaded.
    settings.pop("block_out_channels", None)
    write_atomically(file, (json.dumps(settings, indent=2, sort_keys=True) + "\n").encode())


def _loss_of(
    model: AutoencoderTiny, lessons: Lessons, batch: int, seed: int
) -> Callable[[int], torch.Tensor]:
    def loss_at(step: int) -> torch.Tensor:
        rows = np.random.default_rng([seed, step]).integers(0, len(lessons.images), batch)
        latents = lessons.latents[torch.from_numpy(rows)].float()
        with torch.autocast("cpu", torch.bfloat16):
            made = model.decode(latents.contiguous(memory_format=torch.channels_last)).sample
        return image_loss(made.float(), to_tensor(lessons.images[rows]))

    return loss_at


def image_loss(made: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return mean |e| + e^2 against the full decoder's images [B, 3, H, W].

    Not against the rendered images: details that the latents have lost cannot be learned, and noisy latents
    have no rendered image.
    """
    error = made - wanted
    loss: torch.Tensor = (error.abs() + error**2).mean()
    return loss
