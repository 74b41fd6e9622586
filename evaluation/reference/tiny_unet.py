"""A diffusers UNet with random weights, small enough to compare element by element in float64."""

from __future__ import annotations

import torch
from diffusers import UNet2DConditionModel


def tiny_unet(seed: int = 0) -> UNet2DConditionModel:
    """Return a UNet of four transformer blocks: eight attention layers."""
    torch.manual_seed(seed)
    return UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_head_dim=2,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
