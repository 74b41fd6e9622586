"""The encoder of the suite's second judge, trained without labels (SimCLR, Chen et al. 2020)."""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BitImageProcessor, ResNetConfig, ResNetModel

from counterpose_miniature.training.encoder_quality import measured, write_encoder_card
from counterpose_miniature.training.encoder_views import two_views
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.images import ImageSet
from counterpose_miniature.training.publishing import save_half
from counterpose_miniature.training.rendered import as_tensor, step_generator
from counterpose_miniature.training.stage import StageContext, checkpoint_of, training_stage

STAGE = "encoder"
FOLDER = "scorer/encoder"
_WIDTH = 192
_TEMPERATURE = 0.2
_MEAN = _STD = 0.5


@training_stage(STAGE)
def train(context: StageContext, log: logging.Logger) -> dict[str, Any]:
    """Train on the generator's scenes, save the folder, and measure it on validation scenes."""
    folder = context.out / FOLDER
    save_half(trained(context, log), folder)
    square = {"height": 64, "width": 64}
    processor = BitImageProcessor(
        size=square, do_center_crop=False, image_mean=[_MEAN] * 3, image_std=[_STD] * 3
    )
    processor.save_pretrained(folder)
    figures = measured(folder, per_class=1 if context.smoke else 20)
    write_encoder_card(folder, figures)
    return {name: figure.model_dump() for name, figure in figures.items()}


def trained(context: StageContext, log: logging.Logger) -> ResNetModel:
    """Train by images and the masks of their objects alone: a view finds its twin in the batch."""
    count, steps, batch = (32, 3, 8) if context.smoke else (6_000, 1_200, 64)
    rendered = ImageSet(context.work / "images", count)
    rendered.ensure(context.threads)
    images, masks = rendered.load()
    torch.manual_seed(context.seed)
    model = nn.ModuleDict({"body": _body(), "head": _head()})

    def loss(step: int) -> Tensor:
        generator = step_generator(context.seed, step)
        rows = torch.randint(count, (batch,), generator=generator).numpy()
        mask = torch.from_numpy(masks[rows]).float()[:, None] / 255
        views = two_views(as_tensor(images[rows]), mask, generator)
        with torch.autocast("cpu", torch.bfloat16):
            places = model["body"]((views - _MEAN) / _STD).last_hidden_state
        return contrast(model["head"](places.float().mean((2, 3))))

    fit(model, loss, Recipe(steps=steps, rate=2e-3, weight_decay=0.02), checkpoint_of(context, STAGE), log)
    body: ResNetModel = model["body"]
    return body


def contrast(vectors: Tensor) -> Tensor:
    """Return the mean loss of finding each row's twin, half of the rows [2N, D] away, among all others."""
    unit = F.normalize(vectors, dim=1)
    itself = torch.eye(len(unit), dtype=torch.bool)
    near = (unit @ unit.T / _TEMPERATURE).masked_fill(itself, -torch.inf)
    return F.cross_entropy(near, torch.arange(len(unit)).roll(len(unit) // 2))


def _body() -> ResNetModel:
    model = ResNetModel(
        ResNetConfig(embedding_size=24, hidden_sizes=[48, 96, _WIDTH], depths=[1, 1, 1], layer_type="basic")
    )
    # A third faster on a CPU.
    return model.to(memory_format=torch.channels_last)


def _head() -> nn.Module:
    """What stands between features and loss, and is thrown away: it forgets more than it should."""
    return nn.Sequential(
        nn.Linear(_WIDTH, 256),
        nn.BatchNorm1d(256),
        nn.ReLU(),
        nn.Linear(256, 64),
        nn.BatchNorm1d(64, affine=False),
    )
