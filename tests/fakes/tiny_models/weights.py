"""Random weights that are the same in every run."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def randomised(model: Model, *, seed: int = 0, spread: float = 0.2) -> Model:
    """Redraw every floating parameter from ``seed``; equal weights would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return model
