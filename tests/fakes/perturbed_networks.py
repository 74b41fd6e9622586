"""Neural networks that round differently at every call, like the matrix kernels of another processor."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

MULTIPLYING = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.MultiheadAttention)
"""Layers that sum over products: where kernels differ. A look-up of an embedding is the same everywhere."""


class Perturbation:
    """Adds uniform noise to outputs of networks, other noise at each call, from one seeded generator.

    Args:
        scale: the largest noise, as a share of the root mean square of the output; of float64, which rounds
            that much finer, as much smaller a share.
        seed: of the generator.
    """

    def __init__(self, scale: float, seed: int = 0) -> None:
        self._scale = scale
        self._generator = torch.Generator().manual_seed(seed)
        self._drawing = threading.Lock()

    def __call__(self, output: Any) -> Any:
        """Return what a network might compute on another processor: tensors, or a structure of them."""
        return tree_map(self._moved, output)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.is_meta:
            return value
        exact = value.detach().to("cpu", torch.float64)
        scale = self._scale * min(1, torch.finfo(value.dtype).eps / torch.finfo(torch.float32).eps)
        size = exact[exact.isfinite()].square().mean().sqrt().nan_to_num() * scale
        with self._drawing:
            noise = torch.rand(exact.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
            chance = torch.rand(exact.shape, generator=self._generator, dtype=torch.float64)
        moved = _rounded(exact + noise * size, value.dtype, chance).to(value.device)
        # Added, so that gradients pass unchanged.
        return value + torch.where(moved.isfinite(), moved - value.detach(), 0)


def _rounded(exact: Tensor, dtype: torch.dtype, chance: Tensor) -> Tensor:
    """Round at random so that the mean is kept: otherwise half precision would hide all noise."""
    near = exact.to(dtype)
    towards = torch.where(exact > near, torch.inf, -torch.inf).to(dtype)
    far = torch.nextafter(near, towards)
    share = (exact - near) / (far.double() - near)
    return torch.where(chance < share, far, near)


@contextmanager
def perturbed_networks(scale: float, seed: int = 0) -> Iterator[None]:
    """Perturb the output of each outermost call of a network inside the block, in every thread."""
    perturbation, plain, inside = Perturbation(scale, seed), nn.Module.__call__, threading.local()

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if getattr(inside, "network", False) or not any(
            isinstance(part, MULTIPLYING) for part in module.modules()
        ):
            return plain(module, *args, **kwargs)
        inside.network = True
        try:
            output = plain(module, *args, **kwargs)
        finally:
            inside.network = False
        return perturbation(output)

    with patch.object(nn.Module, "__call__", call):
        yield
