"""What the preview decoder learns from: latents, and what the full decoder makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from diffusers import AutoencoderKL
from tqdm import tqdm

from faultline_miniature.training.autoencoder import to_images, to_tensor
from faultline_miniature.training.images import ImageSet
from faultline_miniature.training.latents import sampled
from faultline_miniature.training.stage import StageContext, save_array

_PART = 500
_BATCH = 50
# Decoded and encoded again, an image's latents move by 0.06, those that the generator drew by 0.15: they lie
# that far from what the encoder would say. Half of the lessons are shaken, by up to twice as much.
_SHAKEN = 0.5
_MOST_NOISE = 0.3


@dataclass(frozen=True)
class Lessons:
    """Latents float16 [N, 4, 16, 16] and the full decoder's images of them, uint8 [N, 64, 64, 3]."""

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
            # Learnt from as they are kept, in half precision: so the answers are asked of those, too.
            kept = drawn.half()
            for file, array in zip(files, (kept.numpy(), decoded(full, kept)), strict=True):
                save_array(file, array)
        latents.append(np.load(files[0]))
        answers.append(np.load(files[1]))
    return Lessons(torch.from_numpy(np.concatenate(latents)), np.concatenate(answers))


@torch.no_grad()
def shaken_latents(full: AutoencoderKL, images: np.ndarray, generator: torch.Generator) -> torch.Tensor:
    """Draw latents [N, 4, 16, 16] of uint8 images [N, 64, 64, 3]; half get noise of a drawn size on top."""
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
