"""How well the generator obeys its captions, judged by a pixel probe while it trains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import UNet2DConditionModel
from PIL import Image
from torch import nn
from transformers import CLIPTextModel

from faultline_miniature.training.autoencoder import reconstruct, to_images
from faultline_miniature.training.decoder import load_polished_autoencoder
from faultline_miniature.training.denoiser_model import build_schedule, save_pipeline
from faultline_miniature.training.generator_card import write_card
from faultline_miniature.training.images import generator_scenes
from faultline_miniature.training.probe import agreement, load_or_train
from faultline_miniature.training.stage import StageContext
from faultline_miniature.training.tokenizer import build_tokenizer
from faultline_miniature.world.grammar import caption, words
from faultline_miniature.world.renderer import render
from faultline_miniature.world.scene import Scene
from faultline_miniature.world.seeds import DEVELOPMENT, SeedRange

# At this size 3 to 4 is best; Stable Diffusion's 7.5 breaks the weather.
_GUIDANCE = 4.0


class Trained(nn.Module):
    """Denoiser and text encoder as one module: what the stage trains and averages."""

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
        free, told = both.float().chunk(2)
        latents = schedule.step(free + _GUIDANCE * (told - free), time, latents).prev_sample
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
    """Sample `count` captions of a split; save them as a sheet; return the probe's agreement."""
    scenes = generator_scenes(range(count), split)
    images = draw_scenes(context, trained, scenes, steps=steps)
    sheet_of(images).save(context.folder("denoiser") / f"samples-{step}.png")
    rates = agreement(load_or_train(context), images, scenes)
    settings = {"n": count, "split": split.name, "guidance": _GUIDANCE, "sampling_steps": steps}
    return {"step": step, **settings, "agreement": rates}


def ceilings(context: StageContext, count: int, split: SeedRange) -> dict[str, dict[str, float]]:
    """Return what the probe reads on a split's rendered images, and on their reconstructions."""
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
    # Below the offset of every training step: looking must not change what training draws.
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
