"""The generator's autoencoder: 64x64 images to 16x16x4 latents and back (AutoencoderKL, f = 4)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL
from tqdm import tqdm

from counterpose_miniature.training.images import ImageSet
from counterpose_miniature.training.stage import StageContext, checkpoint_of, learning_rate, training_stage
from counterpose_miniature.world.seeds import DEVELOPMENT

STAGE = "autoencoder"
# 24/48/64 gave 23 to 24 dB on the first world; with these, the polished decoder reaches 26.8 dB.
_CHANNELS = (32, 64, 96)
# At 0 the posterior's noise would be as large as its mean, which costs a small model hundreds of steps.
_FIRST_LOG_VARIANCE = -5.0
_KL_WEIGHT = 1e-4
# In the first run, the autoencoder's blur limited class and companion, not the denoiser.
_OBJECT_WEIGHT = 1.0


@dataclass(frozen=True)
class _Sizes:
    images: int
    held_out: int
    steps: int
    batch: int
    rate: float = 2.5e-3
    channels: tuple[int, ...] = _CHANNELS


# Small batches: 32 images allowed a quarter of the steps in the same time, and gave 20.3 dB.
_FULL = _Sizes(images=36_000, held_out=256, steps=2_000, batch=12)
_SMOKE = _Sizes(images=32, held_out=8, steps=12, batch=4, channels=(8, 8, 16))


@training_stage(STAGE)
def train(context: StageContext, log: logging.Logger) -> dict[str, Any]:
    """Train the autoencoder and save it to work/autoencoder/model; resumes from its checkpoint."""
    sizes = _SMOKE if context.smoke else _FULL
    training = training_images(context)
    held_out = ImageSet(context.work / "images", sizes.held_out, DEVELOPMENT)
    held_out.ensure(context.threads)
    model = _fit(context, sizes, training, held_out.load()[0], log)
    model.save_pretrained(context.folder(STAGE) / "model", safe_serialization=True)
    psnr = reconstruction_psnr(model, held_out.load()[0])
    return {"psnr_db": psnr, "held_out": sizes.held_out, "steps": sizes.steps}


def training_images(context: StageContext) -> ImageSet:
    """Return the generator's training images; render those that are missing."""
    sizes = _SMOKE if context.smoke else _FULL
    images = ImageSet(context.work / "images", sizes.images)
    images.ensure(context.threads)
    return images


def build_autoencoder(channels: tuple[int, ...], seed: int) -> AutoencoderKL:
    """Return an untrained autoencoder of three levels whose posterior starts narrow."""
    torch.manual_seed(seed)
    model = AutoencoderKL(
        block_out_channels=channels,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        layers_per_block=1,
        norm_num_groups=8,
        mid_block_add_attention=False,
        sample_size=64,
    )
    with torch.no_grad():
        model.quant_conv.bias[4:] += _FIRST_LOG_VARIANCE
    return model.to(memory_format=torch.channels_last)


def load_autoencoder(context: StageContext) -> AutoencoderKL:
    """Return the trained autoencoder of this working folder."""
    model = AutoencoderKL.from_pretrained(context.work / STAGE / "model")
    return model.to(memory_format=torch.channels_last).eval()


def to_tensor(images: np.ndarray) -> torch.Tensor:
    """Turn uint8 [B, H, W, 3] into float32 [B, 3, H, W] in -1..1, channels last in memory."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1.0


def _fit(
    context: StageContext, sizes: _Sizes, training: ImageSet, held_out: np.ndarray, log: logging.Logger
) -> AutoencoderKL:
    model = build_autoencoder(sizes.channels, context.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes.rate, weight_decay=1e-4, fused=True)
    checkpoint = checkpoint_of(context, STAGE)
    first = restore(checkpoint.load(), model, optimizer)
    log.info("from step %d of %d", first, sizes.steps)
    images, masks = training.load()
    for step in (bar := tqdm(range(first, sizes.steps), initial=first, total=sizes.steps, desc=STAGE)):
        # Seeded by the step, so that a resumed run uses the same batches.
        rows = np.random.default_rng([context.seed, step]).integers(0, len(images), sizes.batch)
        rate = learning_rate(step, sizes.steps, sizes.rate, warm_up=min(100, sizes.steps // 2), hold=0.2)
        loss = _step(model, optimizer, rate, to_tensor(images[rows]), torch.from_numpy(masks[rows]))
        if step % 100 == 99:
            log.info("step %d loss %.4f psnr %.2f", step + 1, loss, reconstruction_psnr(model, held_out[:64]))
            bar.set_postfix(loss=f"{loss:.4f}")
        if checkpoint.due():
            checkpoint.save(training_state(model, optimizer, step + 1))
    return model.eval()


def _step(
    model: AutoencoderKL,
    optimizer: torch.optim.Optimizer,
    rate: float,
    images: torch.Tensor,
    masks: torch.Tensor,
) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    with torch.autocast("cpu", torch.bfloat16):
        # bf16 for the networks only, because the loss below is a difference of nearly equal numbers.
        posterior = model.encode(images).latent_dist
        decoded = model.decode(posterior.sample()).sample
    error = decoded.float() - images
    mean, log_variance = posterior.mean.float(), posterior.logvar.float()
    kl = 0.5 * (mean**2 + log_variance.exp() - 1.0 - log_variance).mean()
    loss = image_error(error, masks) + _KL_WEIGHT * kl
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def image_error(error: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Return mean |e| + e^2 of [B, 3, H, W] errors, counted twice where masks uint8 [B, H, W] are full."""
    weight = 1.0 + _OBJECT_WEIGHT * masks[:, None].float() / 255.0
    return (weight * (error.abs() + error**2)).mean()


@torch.no_grad()
def reconstruct(model: AutoencoderKL, images: np.ndarray) -> np.ndarray:
    """Encode (posterior mean) and decode uint8 [B, 64, 64, 3]."""
    decoded = [
        model.decode(model.encode(to_tensor(part)).latent_dist.mode()).sample
        for part in np.array_split(images, max(len(images) // 32, 1))
    ]
    return to_images(torch.cat(decoded))


def to_images(images: torch.Tensor) -> np.ndarray:
    """Turn float [B, 3, H, W] in -1..1 into uint8 [B, H, W, 3]."""
    levels = (images.float().clamp(-1, 1) + 1.0) * 127.5
    return levels.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def reconstruction_psnr(model: AutoencoderKL, images: np.ndarray) -> float:
    """Return the peak signal-to-noise ratio of reconstructions in dB, over all pixels together."""
    difference = reconstruct(model, images).astype(np.float64) - images
    return float(10 * np.log10(255.0**2 / np.mean(difference**2)))


def training_state(model: AutoencoderKL, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    """Return what a checkpoint of the autoencoder holds after `step` steps."""
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}


def restore(state: dict[str, Any] | None, model: AutoencoderKL, optimizer: torch.optim.Optimizer) -> int:
    """Load a checkpoint's state, if there is one; return the next step."""
    if state is None:
        return 0
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])
