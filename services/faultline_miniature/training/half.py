"""Weights on disk: half precision, safetensors, replaced whole."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save
from torch import nn

from faultline_miniature.training.stage import write_atomically


def write_half(model: nn.Module, path: Path) -> None:
    """Write a model's state as fp16 safetensors; counters stay whole numbers."""
    tensors = {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in model.state_dict().items()
    }
    write_atomically(path, save(tensors))
