"""Further training of the autoencoder's decoder alone: sharper images from unchanged latents."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL
from tqdm import tqdm

from counterpose_miniature.training.autoencoder import (
    image_error,
    reconstruction_psnr,
    restore,
    to_tensor,
    training_images,
    training_state,
)
from counterpose_miniature.training.images import ImageSet
from counterpose_miniature.training.latents import load_latents, load_normalised_autoencoder, sampled
from counterpose_miniature.training.stage import (
    StageContext,
    checkpoint_of,
    figures_of,
    learning_rate,
    training_stage,
)
from counterpose_miniature.world.seeds import DEVELOPMENT

STAGE = "decoder"
# Outlines determine the class, so errors of the image's slopes count in addition to those of its levels.
_SLOPE_WEIGHT = 0.5


@dataclass(frozen=True)
class _Sizes:
    steps: int
    batch: int
    held_out: int
    rate: float = 1.5e-3


_FULL = _Sizes(steps=1_600, batch=12, held_out=256)
_SMOKE = _Sizes(steps=2, batch=4, held_out=8)


@training_stage(STAGE)
def train(context: StageContext, log: logging.Logger) -> dict[str, Any]:
    """Train the decoder further; the encoder and every latent stay exactly the same."""
    sizes = _SMOKE if context.smoke else _FULL
    held_out = ImageSet(context.work / "images", sizes.held_out, DEVELOPMENT)
    held_out.ensure(context.threads)
    model = load_normalised_autoencoder(context).to(memory_format=torch.channels_last)
    before = reconstruction_psnr(model, held_out.load()[0])
    _fit(context, sizes, model, held_out.load()[0], log)
    model.save_pretrained(context.folder(STAGE) / "model", safe_serialization=True)
    after = reconstruction_psnr(model.eval(), held_out.load()[0])
    return {"psnr_db": after, "before_db": before, "held_out": sizes.held_out}


def load_polished_autoencoder(context: StageContext) -> AutoencoderKL:
    """Return the generator's autoencoder, with the new decoder if this stage has ended."""
    if figures_of(context, STAGE) is None:
        return load_normalised_autoencoder(context)
    return AutoencoderKL.from_pretrained(context.work / STAGE / "model").eval()


def _fit(
    context: StageContext, sizes: _Sizes, model: AutoencoderKL, held_out: np.ndarray, log: logging.Logger
) -> None:
    model.requires_grad_(False)
    # The encoder must not change, because the denoiser is trained on its latents.
    weights = [*model.decoder.parameters(), *model.post_quant_conv.parameters()]
    for weight in weights:
        weight.requires_grad_(True)
    optimizer = torch.optim.AdamW(weights, lr=sizes.rate, weight_decay=1e-4, fused=True)
    checkpoint = checkpoint_of(context, STAGE)
    first = restore(checkpoint.load(), model, optimizer)
    images, masks = training_images(context).load()
    moments = load_latents(context).moments
    for step in tqdm(range(first, sizes.steps), initial=first, total=sizes.steps, desc=STAGE):
        rows = np.random.default_rng([context.seed, step]).integers(0, len(images), sizes.batch)
        # Samples instead of means, because generated latents are not means either.
        latents = sampled(moments[torch.from_numpy(rows)], context.generator(step))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, sizes.steps, sizes.rate, warm_up=min(50, sizes.steps // 2))
        loss = decoder_loss(model, latents, to_tensor(images[rows]), torch.from_numpy(masks[rows]))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        if step % 100 == 99:
            psnr = reconstruction_psnr(model, held_out[:64])
            log.info("step %d loss %.4f psnr %.2f", step + 1, float(loss.detach()), psnr)
        if checkpoint.due():
            checkpoint.save(training_state(model, optimizer, step + 1))


def decoder_loss(
    model: AutoencoderKL, latents: torch.Tensor, images: torch.Tensor, masks: torch.Tensor
) -> torch.Tensor:
    """Return the weighted error of levels plus the error of horizontal and vertical slopes."""
    with torch.autocast("cpu", torch.bfloat16):
        decoded = model.decode(latents.contiguous(memory_format=torch.channels_last)).sample
    error = decoded.float() - images
    slopes: torch.Tensor = error.diff(dim=2).abs().mean() + error.diff(dim=3).abs().mean()
    levels: torch.Tensor = image_error(error, masks)
    return levels + _SLOPE_WEIGHT * slopes
