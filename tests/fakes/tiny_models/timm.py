"""Small timm networks in timm's folder format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from safetensors.torch import save_file
from timm import create_model
from torch import nn

from counterpose_core.images.codecs import Pixels
from fakes.tiny_models.weights import randomised

SIDE = 32
PREPARATION: dict[str, Any] = {
    "input_size": [3, SIDE, SIDE],
    "interpolation": "bicubic",
    "crop_pct": 1.0,
    "mean": [0.5] * 3,
    "std": [0.5] * 3,
}
"""How the tiny networks have their images prepared."""


def save_timm(
    folder: Path,
    classes: Sequence[str],
    *,
    architecture: str = "test_resnet",
    seed: int = 0,
    spread: float = 0.2,
) -> None:
    """Save a random network with ``config.json``, ``model.safetensors`` and ``class_map.json``."""
    folder.mkdir(parents=True)
    # All-random scales make batch norm diverge; the library's own initial values are random enough.
    model = create_model(architecture, num_classes=len(classes))
    randomised(model.get_classifier(), seed=seed, spread=spread)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    config = {
        "architecture": architecture,
        "num_classes": len(classes),
        "model_args": {},
        "pretrained_cfg": {**PREPARATION, "num_classes": len(classes)},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "class_map.json").write_text(json.dumps(list(classes)), encoding="utf-8")


def plain_logits(model: nn.Module, pixels: Pixels) -> npt.NDArray[np.float32]:
    """Compute logits by the network's own forward, from pixels prepared by hand."""
    small = Image.fromarray(pixels).resize(
        (SIDE * pixels.shape[1] // pixels.shape[0], SIDE), Image.Resampling.BICUBIC
    )
    left = round((small.width - SIDE) / 2)
    values = np.asarray(small.crop((left, 0, left + SIDE, SIDE)), dtype=np.float32)
    batch = torch.from_numpy((values / 255.0 - 0.5) / 0.5).permute(2, 0, 1)[None]
    with torch.inference_mode():
        logits: npt.NDArray[np.float32] = model(batch)[0].numpy()
    return logits
