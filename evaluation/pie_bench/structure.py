"""PIE-Bench's structure distance by a DINO that the user supplies (Tumanyan et al. 2022, section 3.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Before transformers, which loads torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import ViTModel

from counterpose_core.errors import InvalidRequest
from evaluation.pie_bench.metrics import Distance

SIDE = 224
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def structure_distance(folder: Path) -> Distance:
    """Return the distance by the network of a folder as transformers saves it, such as ``dino-vitb8``.

    It is the mean squared difference of the cosines between the keys of an image's patches, all heads
    together, in the last layer. The published evaluation gives the network levels of 0 to 255, where it was
    trained on 0 to 1; so does this, or its figures would not be comparable.

    Raises:
        InvalidRequest: the folder holds no such network.
    """
    try:
        network = ViTModel.from_pretrained(folder, local_files_only=True, add_pooling_layer=False).eval()
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            f"{str(folder)!r} holds no vision transformer of transformers: {error}"
        ) from error

    def distance(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> float:
        one, other = (_self_similarity(network, image) for image in (first, second))
        return float(torch.mean((one - other) ** 2))

    return distance


@torch.no_grad()
def _self_similarity(network: Any, image: npt.NDArray[np.float32]) -> Tensor:
    pixels = torch.from_numpy(255 * image).permute(2, 0, 1)[None]
    pixels = torch.nn.functional.interpolate(pixels, (SIDE, SIDE), mode="bilinear", antialias=True)
    mean, deviation = (torch.tensor(value).reshape(1, 3, 1, 1) for value in (_MEAN, _DEVIATION))
    keys: list[Tensor] = []
    layer = network.layers[-1].attention.k_proj
    handle = layer.register_forward_hook(lambda _, __, output: keys.append(output))
    try:
        network((pixels - mean) / deviation, interpolate_pos_encoding=True)
    finally:
        handle.remove()
    unit = torch.nn.functional.normalize(keys[0][0], dim=1, eps=1e-4)
    return unit @ unit.T
