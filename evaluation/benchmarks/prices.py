"""What evaluations cost in F, counted on the meta device: nothing is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import UNet2DConditionModel
from torch.utils.flop_counter import FlopCounterMode

SD_INNER_ITERATION = 2.08
"""F of an inner iteration of null-text with SD 1.4's weights frozen."""


@dataclass(frozen=True)
class Prices:
    """Operations of one evaluation, and an inner iteration's price in evaluations, weights free or frozen."""

    evaluation_flops: int
    free_inner: float
    frozen_inner: float


def prices(unet_config: Path, text_length: int) -> Prices:
    """Count the operations of a network by its configuration."""
    config = UNet2DConditionModel.load_config(unet_config)
    with torch.device("meta"):
        unet: Any = UNet2DConditionModel.from_config(config).eval()
        side = unet.config.sample_size
        latents = torch.empty(1, unet.config.in_channels, side, side)
        text = torch.empty(1, text_length, unet.config.cross_attention_dim)
        time = torch.empty(1, dtype=torch.int64)

    def inner_iteration() -> None:
        null = text.clone().requires_grad_()
        unet(latents, time, null).sample.sum().backward()

    with torch.no_grad():
        evaluation = _flops(lambda: unet(latents, time, text))
    free = _flops(inner_iteration)
    unet.requires_grad_(requires_grad=False)
    return Prices(evaluation, free / evaluation, _flops(inner_iteration) / evaluation)


def _flops(work: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())
