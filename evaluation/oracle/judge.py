"""The trained oracle: attributes and probabilities of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from counterpose_miniature.training.rendered import as_tensor
from counterpose_miniature.world import VALUES

from .network import AttributeNetwork

WEIGHTS = Path(__file__).with_name("weights.safetensors")
_BATCH = 256


class Oracle:
    """Judges images by a network that differs from every served model in training scenes and design."""

    def __init__(self, network: AttributeNetwork) -> None:
        self._network = network.eval()

    @classmethod
    def load(cls, weights: Path = WEIGHTS) -> Oracle:
        """Load the committed weights."""
        network = AttributeNetwork()
        network.load_state_dict({name: tensor.float() for name, tensor in load_file(weights).items()})
        return cls(network)

    @torch.no_grad()
    def probabilities(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Return float32 [N, values] per attribute, in VALUES' order, of images uint8 [N, 64, 64, 3]."""
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (64, 64, 3):
            raise ValueError(f"images must be uint8 [N, 64, 64, 3], not {images.dtype} {images.shape}")
        if not len(images):
            return {name: np.zeros((0, len(values)), dtype=np.float32) for name, values in VALUES.items()}
        parts = [self._network(as_tensor(images[at : at + _BATCH])) for at in range(0, len(images), _BATCH)]
        return {name: torch.cat([part[name].softmax(dim=1) for part in parts]).numpy() for name in VALUES}

    def attributes(self, images: np.ndarray) -> list[dict[str, str]]:
        """Return the most probable value of each attribute, one dictionary an image."""
        best = {name: rows.argmax(axis=1) for name, rows in self.probabilities(images).items()}
        return [{name: VALUES[name][best[name][at]] for name in VALUES} for at in range(len(images))]
