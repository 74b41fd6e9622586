"""The generator's agreement with its captions, measured by a pixel probe during training; its model card."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import UNet2DConditionModel
from PIL import Image
from torch import nn
from transformers import CLIPTextModel

from counterpose_miniature.training.autoencoder import reconstruct, to_images
from counterpose_miniature.training.decoder import load_polished_autoencoder
from counterpose_miniature.training.denoiser_model import build_schedule, save_pipeline
from counterpose_miniature.training.images import generator_scenes
from counterpose_miniature.training.probe import agreement, load_or_train
from counterpose_miniature.training.stage import StageContext, figures_of
from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_miniature.world.grammar import caption, words
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, SeedRange

_CARD = """---
library_name: diffusers
pipeline_tag: text-to-image
---

# Miniature generator

A Stable-Diffusion-class text-to-image model of the miniature world: 64x64 images, 24 tokens, the world's
closed vocabulary. Loads with `diffusers.StableDiffusionPipeline`; weights are half precision for storage:
load them with `dtype=torch.float32` on a CPU. Use guidance 3 to 4.

## Parts

- `vae`: AutoencoderKL, f = 4, 16x16x4 latents, normalised per channel inside its 1x1 convolutions, so the
  scaling factor is 1.
- `unet`: UNet2DConditionModel, cross-attention at 16x16, 8x8 and the middle, two heads, v-prediction.
- `text_encoder`: CLIPTextModel, trained together with the denoiser; word-level tokenizer.
- `scheduler`: DDIM, scaled-linear betas 0.00085 to 0.012.

## Training

`python -m counterpose_miniature.training autoencoder latents decoder denoiser`. Images come from the world's
training seeds under the generator's distribution; four class x attribute combinations are withheld. The
autoencoder minimises absolute plus squared error with the object's area counted twice; its decoder is then
trained further alone, on slopes too. The denoiser minimises the velocity error, weighted by a clamped
signal-to-noise ratio, over stratified steps, with {dropout} of captions dropped; the published weights are a
moving average.

## Measured

{measured}

Agreement of a pixel probe with the caption, on {split} seeds (the probe is a training aid and is not the
oracle that judges edits), with the same probe on rendered images and on their reconstructions beside it:

{table}

```json
{figures}
```
"""
# At this size, 3 to 4 is best; with Stable Diffusion's 7.5 the weather fails.
_GUIDANCE = 4.0


def write_card(context: StageContext, folder: Path, figures: dict[str, Any]) -> None:
    """Write README.md into the generator's folder."""
    autoencoder = figures_of(context, "autoencoder") or {}
    autoencoder |= figures_of(context, "decoder") or {}
    latents = figures_of(context, "latents") or {}
    table = agreement_table(figures)
    measured = (
        f"Reconstruction: {autoencoder.get('psnr_db', 0.0):.1f} dB over {autoencoder.get('held_out')} "
        f"development images. Trained on {latents.get('count')} images; {figures['step']} denoiser steps."
    )
    text = _CARD.format(
        dropout="12 %",
        split=figures["split"],
        measured=measured,
        table=table,
        figures=json.dumps(figures, indent=2),
    )
    (folder / "README.md").write_text(text)


def agreement_table(figures: dict[str, Any]) -> str:
    """Return the agreement per attribute with its 95 % interval, as a Markdown table."""
    lines = ["| attribute | generated | 95 % interval | n | reconstructed | rendered |", "| --- " * 6 + "|"]
    for name, rate in figures["agreement"].items():
        low, high = wilson_interval(rate, figures["n"])
        others = " | ".join(
            f"{figures[kind][name]:.2f}" if kind in figures else "-" for kind in ("rebuilt", "rendered")
        )
        lines.append(f"| {name} | {rate:.2f} | {low:.2f} to {high:.2f} | {figures['n']} | {others} |")
    return "\n".join(lines)


def wilson_interval(rate: float, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of a rate over n trials (Wilson 1927)."""
    z2 = 1.96**2 / n
    centre = (rate + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * (rate * (1 - rate) + z2 / 4)) / (1 + z2)
    return max(centre - half, 0.0), min(centre + half, 1.0)


class Trained(nn.Module):
    """Denoiser and text encoder as one module, which the stage trains and averages."""

    def __init__(self, denoiser: UNet2DConditionModel, text_encoder: CLIPTextModel) -> None:
        super().__init__()
        self.denoiser, self.text_encoder = denoiser, text_encoder

    def forward(self, noised: torch.Tensor, times: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Predict the velocity [B, 4, H, W] from noised latents, times [B] and token ids [B, 24]."""
        hidden = self.text_encoder(tokens).last_hidden_state
        predicted: torch.Tensor = self.denoiser(noised, times, hidden, return_dict=False)[0]
        return predicted


@torch.no_grad()
def sample_latents(
    trained: Trained, captions: Sequence[str], *, steps: int, generator: torch.Generator
) -> torch.Tensor:
    """Return latents [N, 4, 16, 16] by DDIM with classifier-free guidance 4."""
    tokenizer = build_tokenizer(words())
    texts = [*[""] * len(captions), *captions]
    ids = tokenizer(texts, padding="max_length", truncation=True, return_tensors="pt")["input_ids"]
    hidden = trained.text_encoder(ids).last_hidden_state
    schedule = build_schedule()
    schedule.set_timesteps(steps)
    latents = torch.randn((len(captions), 4, 16, 16), generator=generator)
    for time in schedule.timesteps:
        with torch.autocast("cpu", torch.bfloat16):
            both = trained.denoiser(torch.cat([latents, latents]), time, hidden, return_dict=False)[0]
        free, captioned = both.float().chunk(2)
        latents = schedule.step(free + _GUIDANCE * (captioned - free), time, latents).prev_sample
    return latents


def check(
    context: StageContext,
    trained: Trained,
    *,
    step: int,
    count: int,
    steps: int,
    split: SeedRange = DEVELOPMENT,
) -> dict[str, Any]:
    """Generate images for `count` captions of a split, save them as a sheet, and return the agreement."""
    scenes = generator_scenes(range(count), split)
    images = draw_scenes(context, trained, scenes, steps=steps)
    sheet_of(images).save(context.folder("denoiser") / f"samples-{step}.png")
    rates = agreement(load_or_train(context), images, scenes)
    settings = {"n": count, "split": split.name, "guidance": _GUIDANCE, "sampling_steps": steps}
    return {"step": step, **settings, "agreement": rates}


def ceilings(context: StageContext, count: int, split: SeedRange) -> dict[str, dict[str, float]]:
    """Return the probe's agreement on a split's rendered images and on their reconstructions."""
    scenes = generator_scenes(range(count), split)
    rendered = np.stack([render(scene) for scene in scenes])
    probe = load_or_train(context)
    rebuilt = reconstruct(load_polished_autoencoder(context), rendered)
    return {"rendered": agreement(probe, rendered, scenes), "rebuilt": agreement(probe, rebuilt, scenes)}


@torch.no_grad()
def draw_scenes(
    context: StageContext, trained: Trained, scenes: Sequence[Scene], *, steps: int
) -> np.ndarray:
    """Generate uint8 [N, 64, 64, 3] from the scenes' first captions."""
    captions = [caption(scene) for scene in scenes]
    # An offset below that of every training step, so that checks do not affect the training's draws.
    latents = sample_latents(trained, captions, steps=steps, generator=context.generator(-7))
    return to_images(load_polished_autoencoder(context).decode(latents).sample)


def sheet_of(images: np.ndarray, columns: int = 8) -> Image.Image:
    """Lay images [N, 64, 64, 3] out in rows at twice their size."""
    missing = -len(images) % columns
    padded = np.concatenate([images, np.zeros((missing, *images.shape[1:]), np.uint8)])
    grid = padded.reshape(-1, columns, 64, 64, 3).transpose(0, 2, 1, 3, 4)
    flat = np.ascontiguousarray(grid.reshape(-1, columns * 64, 3))
    return Image.fromarray(flat).resize((columns * 128, 2 * flat.shape[0]), Image.Resampling.NEAREST)


def publish(context: StageContext, trained: Trained, folder: Path, figures: dict[str, Any]) -> None:
    """Save the whole generator in diffusers' layout with its card."""
    save_pipeline(folder, load_polished_autoencoder(context), trained.denoiser, trained.text_encoder)
    write_card(context, folder, figures)
