"""Two networks of the world at 256 pixels: one is tuned on blurred images from the other."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

# Before timm, which loads torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import timm
import torch
import torch.nn.functional as F
from PIL import Image, ImageFilter
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from counterpose_miniature.training.classifier import save
from counterpose_miniature.training.degradation import mirrored
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.rendered import as_tensor, step_generator
from counterpose_miniature.training.stage import Checkpoint
from counterpose_miniature.world import DATASET, VALUES, Scene, scene_for
from counterpose_miniature.world.renderer import drawn
from counterpose_miniature.world.seeds import CLASSIFIER
from evaluation.paths import SUITE_WEIGHTS

SHARP, TUNED, COPY = "sharp-256", "tuned-256", "tuned-256-copy"
"""The network of sharp images, the same tuned on blurred ones, and a copy of that under another name."""

ARCHITECTURE = "test_resnet"
INPUT = 128
"""Pixels of a network's input; timm's own preparation reduces to it."""
START = SUITE_WEIGHTS / "classifiers/unbiased-resnet"
"""The suite's network of 64 pixels: both begin with its weights."""
FIRST, SCENES = 90_000_000, 3000
"""Where the training scenes begin in the classifiers' split, and how many there are."""
STEPS = {SHARP: 160, TUNED: 120}
_BATCH = 32
_RATE = 2e-3
_WIDEST = 8.0
"""Pixels of the widest Gaussian, Pillow's own, with which tuning blurs every second image: beyond the hardest
level at this size, 6.9."""
_NOISE, _COVERED = 0.25, 0.6
"""Tuning adds noise up to this, and covers so much of an image from below: those tuned on blur alone lost a
quarter of their right answers in the hardest noise or behind a cover, so each was the worse one somewhere."""


def train(folder: Path, work: Path) -> None:
    """Train both networks into ``folder``, each from its checkpoint in ``work`` on, where it is missing."""
    work.mkdir(parents=True, exist_ok=True)
    log = logging.getLogger(__name__)
    todo = [name for name in STEPS if not (folder / name / "model.safetensors").exists()]
    scenes = [scene_for(CLASSIFIER, FIRST + index, DATASET) for index in range(SCENES if todo else 0)]
    images = [drawn(scene) for scene in tqdm(scenes, desc="draw", mininterval=5)]
    for name in todo:
        _fit(name, folder, work, scenes, images, log)
    _copy(folder)


def _fit(
    name: str,
    folder: Path,
    work: Path,
    scenes: Sequence[Scene],
    images: Sequence[Image.Image],
    log: logging.Logger,
) -> None:
    tuned = seed = list(STEPS).index(name)
    torch.manual_seed(seed)
    model = timm.create_model(ARCHITECTURE, num_classes=len(VALUES["object_class"]))
    model.load_state_dict(load_file((START if name == SHARP else folder / SHARP) / "model.safetensors"))
    labels = torch.tensor([VALUES["object_class"].index(scene.object_class) for scene in scenes])

    def loss(step: int) -> Tensor:
        generator = step_generator(seed, step)
        rows = torch.randint(len(images), (_BATCH,), generator=generator)
        widths = (torch.rand(_BATCH, generator=generator) * 2 - 1) * _WIDEST * tuned
        shown = [_seen(images[row], width) for row, width in zip(rows.tolist(), widths.tolist(), strict=True)]
        batch = mirrored(as_tensor(np.stack(shown)), generator)
        light, spread, covered = torch.rand(3, _BATCH, 1, 1, 1, generator=generator)
        noise = spread * _NOISE * tuned * torch.randn(batch.shape, generator=generator)
        varied = (batch * (0.5 + light) + noise).clamp(0, 1)
        height = INPUT * (1 - _COVERED * tuned * covered)
        varied = torch.where(torch.arange(INPUT)[:, None] < height, varied, 0.5)
        return F.cross_entropy(model(varied * 2 - 1), labels[rows])

    recipe = Recipe(steps=STEPS[name], rate=_RATE, weight_decay=0.05)
    fit(model, loss, recipe, Checkpoint(work, f"{name}.pt", seconds=30.0), log)
    save(model, ARCHITECTURE, folder / name, side=INPUT)


def _seen(image: Image.Image, width: float) -> np.ndarray:
    """What a network sees of an image that is blurred where the width is positive."""
    blurred = image.filter(ImageFilter.GaussianBlur(width)) if width > 0 else image
    return np.asarray(blurred.resize((INPUT, INPUT), Image.Resampling.BICUBIC))


def _copy(folder: Path) -> None:
    (folder / COPY).mkdir(exist_ok=True)
    for file in (folder / TUNED).iterdir():
        (folder / COPY / file.name).write_bytes(file.read_bytes())
