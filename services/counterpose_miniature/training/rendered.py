"""Rendered training images, cached on disk and converted to tensors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from counterpose_miniature.world import Scene, render


def render_all(scenes: Sequence[Scene], cache: Path | None = None) -> np.ndarray:
    """Render scenes as uint8 [N, 64, 64, 3], or read them from a cache file that fits."""
    if cache is not None and cache.exists():
        # Checking the last image suffices: other scenes or another renderer would change it too.
        kept = np.load(cache, mmap_mode="r")
        if len(kept) == len(scenes) and np.array_equal(kept[-1], render(scenes[-1])):
            return np.asarray(kept)
    images = np.stack([render(scene) for scene in tqdm(scenes, desc="render", mininterval=5.0)])
    if cache is not None:
        # Named by the process: another one may render the same scenes.
        part = cache.with_name(f"{cache.stem}.{os.getpid()}.part.npy")
        np.save(part, images)
        part.replace(cache)
    return images


def as_tensor(images: np.ndarray) -> Tensor:
    """Turn uint8 [N, H, W, 3] into float [N, 3, H, W] in 0..1, channels last in memory."""
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255


def step_generator(seed: int, step: int) -> torch.Generator:
    """Return the generator of one step, so that a resumed training draws the same batches."""
    return torch.Generator().manual_seed(seed * 1_000_003 + step)
