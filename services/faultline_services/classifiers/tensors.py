"""The tensors of a classifier's safetensors file, each number of them finite."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from faultline_core.errors import ModelFormatRefused
from faultline_services.safetensors_file import require_readable


def read_tensors(file: Path, name: str) -> dict[str, Tensor]:
    """Load the weights of the classifier ``name``.

    Raises:
        ModelFormatRefused: the file is no safetensors file, or a weight is NaN or infinite.
    """
    require_readable(file)
    tensors = load_file(file)
    for key, tensor in tensors.items():
        # One such weight makes every prediction NaN: said once here, not of each picture.
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelFormatRefused(f"{key!r} of {name!r} holds numbers that are not finite")
    return tensors
