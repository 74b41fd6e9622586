"""Guidance as an input of the network, as few-step models that were distilled with it want it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SCALE = 1000.0
LONGEST_PERIOD = 10000.0


def guidance_embedding(guidance: float, width: int) -> Tensor:
    """Embed a guidance scale into (1, width) float32: sines, then cosines, of w - 1 (Meng et al. 2023).

    At guidance 1, the conditional output alone, it stands for 0.
    """
    half = width // 2
    exponents = torch.arange(half, dtype=torch.float32) * -(math.log(LONGEST_PERIOD) / (half - 1))
    angles = SCALE * (guidance - 1.0) * torch.exp(exponents)
    embedded = torch.cat([torch.sin(angles), torch.cos(angles)])
    return torch.nn.functional.pad(embedded, (0, width % 2))[None]
