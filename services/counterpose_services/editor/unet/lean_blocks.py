"""Blocks of diffusers' networks that compute the same with fewer passes over memory, for processors.

Between two convolutions a processor waits for memory. As diffusers writes them, a residual block divides by 1
and makes a new tensor for each activation and each sum, and a GEGLU reads both halves of one wide tensor with
gaps.
"""

from __future__ import annotations

import torch
from diffusers.models.activations import GEGLU
from diffusers.models.resnet import ResnetBlock2D
from torch import Tensor, nn
from torch.nn import functional

WITHOUT_SCALE = ("default", "group")
"""What diffusers calls group norm without a scale from the timestep, in a UNet and in an autoencoder."""


class LeanGEGLU(nn.Module):
    """GEGLU (Shazeer 2020) whose two halves are projected one after the other, each without gaps."""

    def __init__(self, plain: GEGLU) -> None:
        super().__init__()
        self.proj = plain.proj

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (B, positions, channels) to (B, positions, width)."""
        weights = self.proj.weight.chunk(2)
        biases = (None, None) if self.proj.bias is None else self.proj.bias.chunk(2)
        value, gate = (functional.linear(hidden, *half) for half in zip(weights, biases, strict=True))
        if torch.is_grad_enabled():
            return value * functional.gelu(gate)
        activated: Tensor = torch.ops.aten.gelu_.default(gate)
        return value.mul_(activated)


class LeanResnetBlock(nn.Module):
    """A residual block of diffusers' default kind: activations and sums take the place of their inputs."""

    def __init__(self, plain: ResnetBlock2D) -> None:
        super().__init__()
        self.norm1, self.conv1 = plain.norm1, plain.conv1
        self.norm2, self.conv2 = plain.norm2, plain.conv2
        self.time_emb_proj, self.conv_shortcut = plain.time_emb_proj, plain.conv_shortcut

    def forward(self, hidden: Tensor, temb: Tensor | None = None) -> Tensor:
        """Map (B, channels, H, W) with an embedded timestep (B, D), if any."""
        # A gradient needs the activations' inputs.
        spare = not torch.is_grad_enabled()
        inner = self.conv1(functional.silu(self.norm1(hidden), inplace=spare))
        if self.time_emb_proj is not None and temb is not None:
            shift = self.time_emb_proj(functional.silu(temb))[:, :, None, None]
            inner = inner.add_(shift) if spare else inner + shift
        inner = self.conv2(functional.silu(self.norm2(inner), inplace=spare))
        if self.conv_shortcut is not None:
            hidden = self.conv_shortcut(hidden)
        outcome: Tensor = inner.add_(hidden) if spare else inner + hidden
        return outcome


def make_lean(network: nn.Module) -> None:
    """Put lean blocks in the places of a frozen network's plain ones; blocks of other kinds stay.

    The parameters are shared, not copied. Results equal those of the plain blocks up to float rounding.
    """
    for part in list(network.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, ResnetBlock2D) and _is_plain(child):
                part._modules[name] = LeanResnetBlock(child)
            elif isinstance(child, GEGLU):
                part._modules[name] = LeanGEGLU(child)


def _is_plain(block: ResnetBlock2D) -> bool:
    return (
        isinstance(block.nonlinearity, nn.SiLU)
        and block.time_embedding_norm in WITHOUT_SCALE
        and block.output_scale_factor == 1.0
        and block.upsample is None
        and block.downsample is None
        and not block.skip_time_act
    )
