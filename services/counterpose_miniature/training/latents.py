"""Latents and token ids of the training images, which are computed once for the denoiser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from diffusers import AutoencoderKL
from tqdm import tqdm

from counterpose_miniature.training.autoencoder import load_autoencoder, to_tensor, training_images
from counterpose_miniature.training.images import caption_variants, generator_scenes
from counterpose_miniature.training.stage import StageContext, figures_of, finish, save_array, use_threads
from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_miniature.world.grammar import words

STAGE = "latents"
_PART = 2_000
_BATCH = 50


@dataclass(frozen=True)
class LatentSet:
    """Posterior moments float16 [N, 8, 16, 16] (mean, log variance), token ids [N, variants, 24] and [24]."""

    moments: torch.Tensor
    tokens: torch.Tensor
    empty: torch.Tensor


def train(context: StageContext) -> None:
    """Encode the training images and save an autoencoder whose latents have mean 0 and deviation 1."""
    if figures_of(context, STAGE) is not None:
        return
    use_threads(context.threads)
    rendered = training_images(context)
    model = load_autoencoder(context)
    images = rendered.load()[0]
    starts = range(0, len(images), _PART)
    for start in tqdm(starts, desc=STAGE):
        path = context.folder(STAGE) / f"moments-{start}.npy"
        if not path.exists():
            save_array(path, _moments(model, images[start : start + _PART]))
    save_array(context.folder(STAGE) / "tokens.npy", _tokens(len(images)))
    moments = np.concatenate([np.load(context.folder(STAGE) / f"moments-{start}.npy") for start in starts])
    mean, deviation = channel_statistics(torch.from_numpy(moments))
    normalise_latents(model, mean, deviation)
    model.save_pretrained(context.folder(STAGE) / "model", safe_serialization=True)
    save_array(context.folder(STAGE) / "moments.npy", _normalised(moments, mean, deviation))
    finish(context, STAGE, {"count": len(images), "mean": mean.tolist(), "deviation": deviation.tolist()})


def load_latents(context: StageContext) -> LatentSet:
    """Return the output of this stage."""
    folder = context.work / STAGE
    tokens = torch.from_numpy(np.load(folder / "tokens.npy")).long()
    moments = torch.from_numpy(np.load(folder / "moments.npy"))
    return LatentSet(moments, tokens[:-1], tokens[-1, 0])


def load_normalised_autoencoder(context: StageContext) -> AutoencoderKL:
    """Return the autoencoder with normalised latents (scaling factor 1)."""
    return AutoencoderKL.from_pretrained(context.work / STAGE / "model").eval()


def sampled(moments: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw latents float32 [B, 4, H, W] from posterior moments [B, 8, H, W]."""
    mean, log_variance = moments.float().chunk(2, dim=1)
    return mean + (0.5 * log_variance).exp() * torch.randn(mean.shape, generator=generator)


def channel_statistics(moments: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and standard deviation [4] of sampled latents, from [N, 8, H, W] moments."""
    # Samples have the variance of the means plus the mean of the variances.
    means, log_variances = moments.float().chunk(2, dim=1)
    centre = means.mean(dim=(0, 2, 3))
    variance = means.var(dim=(0, 2, 3)) + log_variances.exp().mean(dim=(0, 2, 3))
    return centre, variance.sqrt()


@torch.no_grad()
def normalise_latents(model: AutoencoderKL, mean: torch.Tensor, deviation: torch.Tensor) -> None:
    """Fold (z - mean) / deviation into the two 1x1 convolutions around the latents; decoding is unchanged."""
    # Per channel and in the weights: with the single scaling factor of loaders (0.456 in the first run), the
    # denoiser's channels would differ in size.
    quant, post = model.quant_conv, model.post_quant_conv
    quant.weight[:4] /= deviation[:, None, None, None]
    quant.bias[:4] = (quant.bias[:4] - mean) / deviation
    quant.bias[4:] -= 2.0 * deviation.log()
    post.bias += (post.weight[:, :, 0, 0] * mean).sum(dim=1)
    post.weight *= deviation[None, :, None, None]
    model.register_to_config(scaling_factor=1.0)


def _normalised(moments: np.ndarray, mean: torch.Tensor, deviation: torch.Tensor) -> np.ndarray:
    shifted = moments.astype(np.float32)
    shifted[:, :4] = (shifted[:, :4] - mean.numpy()[:, None, None]) / deviation.numpy()[:, None, None]
    shifted[:, 4:] -= 2.0 * np.log(deviation.numpy())[:, None, None]
    return shifted.astype(np.float16)


@torch.no_grad()
def _moments(model: AutoencoderKL, images: np.ndarray) -> np.ndarray:
    rows = []
    for start in range(0, len(images), _BATCH):
        with torch.autocast("cpu", torch.bfloat16):
            posterior = model.encode(to_tensor(images[start : start + _BATCH])).latent_dist
        rows.append(torch.cat([posterior.mean, posterior.logvar], dim=1).to(torch.float16).numpy())
    return np.concatenate(rows)


def _tokens(count: int) -> np.ndarray:
    tokenizer = build_tokenizer(words())
    variants = [caption_variants(scene) for scene in generator_scenes(range(count))]
    # The empty caption is one more row, so that its ids come from the same tokenizer.
    variants.append([""] * len(variants[0]))
    flat = [text for texts in variants for text in texts]
    ids = tokenizer(flat, padding="max_length", truncation=True, return_tensors="np")["input_ids"]
    return np.asarray(ids, dtype=np.int16).reshape(len(variants), -1, ids.shape[1])
