"""The tensors of a classifier's safetensors file, each number of them finite."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from faultline_core.errors import ModelFormatRefused
from faultline_services.safetensors_file import require_readable

_COUNTED_BY_LAYERS = ("running_mean", "running_var", "num_batches_tracked")
"""Ends of the names of what layers keep without learning it."""


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


def count_parameters(file: Path) -> int | None:
    """Count the numbers that were learned, by the file's header alone; None where there is none to read."""
    shapes: dict[str, list[int]] = {}
    try:
        with safe_open(file, framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118  # the library's own, and no mapping
                shapes[name] = opened.get_slice(name).get_shape()
    except (SafetensorError, OSError):
        return None
    return sum(math.prod(shape) for name, shape in shapes.items() if not name.endswith(_COUNTED_BY_LAYERS))
